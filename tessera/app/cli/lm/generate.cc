// tessera lm generate: what a language model writes.
#include <algorithm>
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/lm/lm.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/clock.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

// Written side by side on a GPU, and by each core.
constexpr int kDeviceRows = 1024, kCoreRows = 32;

// Where the time of a model went, whatever is left being that of the space.
Result<Json> profile_json(lm::LanguageModel& model, double elapsed_s) {
  const lm::LanguageModel::Times times = model.times();
  TESSERA_TRY(const std::vector<lm::LanguageModel::KernelTime> kernels, model.profile());
  auto list = Json::array();
  double sum_us = 0;
  for (const lm::LanguageModel::KernelTime& k : kernels) {
    list.push_back({{"name", k.name}, {"us", k.us}});
    sum_us += k.us;
  }
  const double read_s = times.words_s + times.network_s + times.chances_s;
  return Json{{"steps", times.steps},
              {"words_ms", times.words_s * 1e3},
              {"network_ms", times.network_s * 1e3},
              {"chances_ms", times.chances_s * 1e3},
              {"choosing_ms", (elapsed_s - model.build_s() - read_s) * 1e3},
              {"step_us", sum_us},
              {"kernels", list}};
}

int generate(const LmArgs& args) {
  const Result<app::WrittenTask> problem = make_task(args, false);
  if (!problem) return report(problem.error());
  const Result<app::OpenReader> open =
      app::open_reader(args.weights, args.device, problem->space->target());
  if (!open) return report(open.error());
  const space::Space& space = *problem->space;
  lm::GenerateOptions options = args.generate;
  options.quality = static_cast<float>(args.quality);
  options.constrained = !args.unconstrained;
  options.threads = target::default_threads();
  if (options.rows == 0) {
    options.rows = open->device ? kDeviceRows
                                : std::max(lm::GenerateOptions{}.rows, kCoreRows * options.threads);
  }
  lm::Generator generator(space, *open->reader, options);
  Rng rng(args.seed);
  const auto start = Clock::now();
  const Result<std::vector<lm::Generated>> made =
      args.beams > 0
          ? generator.beams(args.count, args.beams)
          : generator.sample(args.count, rng, [](const decide::Candidate&) { return true; });
  if (!made) return report(made.error());
  const double elapsed_s = seconds_since(start);
  const double build_s = open->model != nullptr ? open->model->build_s() : 0;
  auto list = Json::array();
  for (const lm::Generated& g : *made) {
    const Result<schedule::Schedule> steps = space.schedule(g.candidate);
    if (!steps) return report(steps.error());
    if (args.json) {
      list.push_back({{"text", space.to_text(g.candidate)},
                      {"schedule", schedule::to_text(*steps)},
                      {"log_prob", g.log_prob}});
    } else {
      fmt::print("{:8.2f}  {}\n", g.log_prob, space.to_text(g.candidate));
    }
  }
  // Code is built, or found in the cache, once for any number of candidates.
  const double rate = static_cast<double>(made->size()) / std::max(1e-9, elapsed_s - build_s);
  Json profile;
  if (args.profile && open->model != nullptr) {
    Result<Json> read = profile_json(*open->model, elapsed_s);
    if (!read) return report(read.error());
    profile = std::move(*read);
  }
  if (args.json) {
    Json all = {{"candidates", list},
                {"per_second", rate},
                {"load_ms", open->load_s * 1e3},
                {"build_ms", build_s * 1e3},
                {"begun", generator.begun()},
                {"thrown_away", generator.thrown_away()}};
    if (!profile.is_null()) all["profile"] = std::move(profile);
    print_json(all);
  } else {
    if (!profile.is_null()) fmt::print(stderr, "{}\n", profile.dump(1));
    fmt::print(stderr, "{} candidates, {:.0f} per second; weights {:.0f} ms, code {:.0f} ms\n",
               made->size(), rate, open->load_s * 1e3, build_s * 1e3);
    if (!options.constrained) {
      fmt::print(stderr, "{} of {} sentences were not legal candidates\n", generator.thrown_away(),
                 generator.begun());
    }
  }
  return kOk;
}

}  // namespace

void add_lm_generate(Flags& lm, std::function<int()>* run) {
  Flags* make = lm.add_subcommand("generate", "Write candidates of an operation or a task");
  const auto args = std::make_shared<LmArgs>();
  add_task_options(make, args.get());
  make->add_option("--count", args->count, "Candidates")->check(positive());
  make->add_option("--temperature", args->generate.temperature,
                   "Below 1 the likely become likelier; 0: the likeliest alone")
      ->check(range(0.0, 100.0));
  make->add_option("--top-p", args->generate.top_p,
                   "Draw among the likeliest values that reach this chance together")
      ->check(range(0.0, 1.0));
  make->add_option("--beams", args->beams,
                   "Instead of drawing: the likeliest, by a search with this many unfinished "
                   "sentences of each sketch")
      ->check(range(1, 4096));
  args->generate.rows = 0;
  make->add_option("--rows", args->generate.rows,
                   "Sentences written side by side (default: 32 per core and at least 64, on a GPU "
                   "1024)")
      ->check(range(1, 4096))
      ->hide_default();
  make->add_option("--device", args->device,
                   "What runs the network: cpu (default), or the device at hand: cuda or opencl")
      ->check(one_of({"cpu", "cuda", "opencl"}))
      ->hide_default();
  make->add_flag("--unconstrained", args->unconstrained,
                 "Draw among all values and throw away what is not legal: how often that is");
  make->add_option("--seed", args->seed, "Seed of the draws");
  make->add_flag("--profile", args->profile,
                 "Also where the time went, and that of each kernel of a step");
  make->add_flag("--json", args->json, "Print JSON");
  make->footer(
      "Examples:\n  tessera lm generate --op matmul:M=64,N=64,K=64 --target neoverse-v1 --count 5");
  make->callback([args, run] { *run = [args] { return generate(*args); }; });
}

}  // namespace tessera::cli
