// tessera lm generate, tessera lm show: what a language model writes, and its probabilities.
#include "tessera/learn/lm/generate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/lm/lm.h"
#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/study/eval.h"
#include "tessera/app/study/written_task.h"
#include "tessera/learn/lm/transcribe.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/clock.h"

namespace tessera::cli {
namespace {

// Written side by side on a GPU, and by each core.
constexpr int kDeviceRows = 1024, kCoreRows = 32;

struct LmArgs {
  std::string op, task, target = "host", data, weights = app::kShipped, device = "cpu";
  int threads = 0;
  std::size_t count = 10, beams = 0;
  lm::GenerateOptions generate;
  double quality = 1;
  std::uint64_t seed = 1;
  bool json = false, profile = false, unconstrained = false;
};

std::string data_of(const LmArgs& args) {
  return args.data.empty() ? app::data_folder() : args.data;
}

Result<app::WrittenTask> make_task(const LmArgs& args, bool with_best) {
  TESSERA_TRY(target::Target target, runtime::resolve_target(args.target));
  if (args.threads > 0) target = target::code_target(target, args.threads);
  return app::make_written_task({.op = args.op,
                                 .task = args.task,
                                 .data = data_of(args),
                                 .target = target,
                                 .with_best = with_best});
}

// Where the time of a model went, whatever is left being that of the space.
Result<nlohmann::ordered_json> profile_json(model::LanguageModel& model, double elapsed_s) {
  const model::LanguageModel::Times times = model.times();
  TESSERA_TRY(const std::vector<model::LanguageModel::KernelTime> kernels, model.profile());
  auto list = nlohmann::ordered_json::array();
  double sum_us = 0;
  for (const model::LanguageModel::KernelTime& k : kernels) {
    list.push_back({{"name", k.name}, {"us", k.us}});
    sum_us += k.us;
  }
  const double read_s = times.words_s + times.network_s + times.chances_s;
  return nlohmann::ordered_json{{"steps", times.steps},
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
          : generator.sample(args.count, rng, [](const space::Candidate&) { return true; });
  if (!made) return report(made.error());
  const double elapsed_s = seconds_since(start);
  const double build_s = open->model != nullptr ? open->model->build_s() : 0;
  auto list = nlohmann::ordered_json::array();
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
  nlohmann::ordered_json profile;
  if (args.profile && open->model != nullptr) {
    Result<nlohmann::ordered_json> read = profile_json(*open->model, elapsed_s);
    if (!read) return report(read.error());
    profile = std::move(*read);
  }
  if (args.json) {
    nlohmann::ordered_json all = {{"candidates", list},
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

// The likeliest values with their probabilities, and what was taken.
std::string chances_text(std::span<const std::string> labels, std::span<const float> log_probs,
                         std::size_t taken, std::size_t preferred) {
  constexpr std::size_t kShown = 5;
  std::vector<std::size_t> order(labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return log_probs[a] > log_probs[b]; });
  std::vector<std::string> words;
  for (std::size_t i = 0; i < order.size() && i < kShown; ++i) {
    words.push_back(fmt::format("{}{} {:.2f}", labels[order[i]], order[i] == preferred ? "*" : "",
                                std::exp(log_probs[order[i]])));
  }
  const std::size_t more = order.size() - words.size();
  return fmt::format("{} {:.2f} <- {}{}", labels[taken], std::exp(log_probs[taken]),
                     fmt::join(words, ", "), more > 0 ? fmt::format(", {} more", more) : "");
}

Result<void> show_sketches(const space::Space& space, const lm::Scribe& scribe, lm::Reader& reader,
                           std::int32_t taken, float quality) {
  std::vector<std::string> labels;
  std::vector<std::int32_t> legal;
  for (const auto& s : space.sketches()) {
    legal.push_back(static_cast<std::int32_t>(labels.size()));
    labels.push_back(s->name());
  }
  const lm::Subject subject = scribe.choice_of_sketch();
  TESSERA_DO(reader.begin(subject, 1, quality));
  const lm::Step step{.row = 0, .question = 0, .previous = -1, .legal = legal};
  TESSERA_TRY(const std::vector<float> chances, reader.step({&step, 1}));
  fmt::print("  {:<20} {}\n", "sketch",
             chances_text(labels, chances, static_cast<std::size_t>(taken), 0));
  return {};
}

Result<void> show_answers(const space::Space& space, const lm::Scribe& scribe, lm::Reader& reader,
                          const space::Candidate& candidate, float quality) {
  const space::Sketch& sketch = *space.sketches()[static_cast<std::size_t>(candidate.sketch)];
  TESSERA_TRY(const std::vector<lm::Answer> answers, lm::transcribe(sketch, candidate.choice));
  const lm::Subject subject = scribe.subject(candidate.sketch);
  TESSERA_DO(reader.begin(subject, 1, quality));
  std::int32_t previous = -1;
  for (const lm::Answer& a : answers) {
    const lm::Step step{.row = 0, .question = a.question, .previous = previous, .legal = a.legal};
    TESSERA_TRY(const std::vector<float> chances, reader.step({&step, 1}));
    const space::Decision& d = sketch.decisions()[static_cast<std::size_t>(a.question)];
    std::vector<std::string> labels;
    for (const std::int32_t v : a.legal) labels.push_back(d.label(v));
    const auto place = [&](std::int32_t value) {
      return static_cast<std::size_t>(std::lower_bound(a.legal.begin(), a.legal.end(), value) -
                                      a.legal.begin());
    };
    const bool legal = std::binary_search(a.legal.begin(), a.legal.end(), d.preferred);
    fmt::print(
        "  {:<20} {}\n", d.name,
        chances_text(labels, chances, place(a.taken), legal ? place(d.preferred) : labels.size()));
    previous = a.taken;
  }
  return {};
}

int show(const LmArgs& args) {
  const Result<app::WrittenTask> problem = make_task(args, true);
  if (!problem) return report(problem.error());
  const Result<app::OpenReader> open =
      app::open_reader(args.weights, args.device, problem->space->target());
  if (!open) return report(open.error());
  lm::Reader& reader = *open->reader;
  const space::Space& space = *problem->space;
  const lm::Scribe scribe(space);
  const space::Candidate candidate = problem->best.value_or(space.preferred());
  const lm::Subject subject = scribe.subject(candidate.sketch);
  fmt::print("task {} on {}: {} words, {} questions\n", subject.task, subject.machine,
             subject.prompt.size(), subject.questions.size());
  if (problem->best) {
    fmt::print("answers of the fastest known ({:.1f} us), probability of each; *: preferred\n",
               problem->best_s * 1e6);
  } else {
    fmt::print(
        "answers that reasoning prefers (*), probability of each; nothing faster is known\n");
  }
  const auto quality = static_cast<float>(args.quality);
  Result<void> done = show_sketches(space, scribe, reader, candidate.sketch, quality);
  if (done.ok()) done = show_answers(space, scribe, reader, candidate, quality);
  return done.ok() ? static_cast<int>(kOk) : report(done.error());
}

void add_common(Flags* sub, LmArgs* args) {
  sub->add_option("--op", args->op, "Operation, e.g. matmul:M=64,N=64,K=64 (see bench --list-ops)");
  sub->add_option("--task", args->task, "Instead: key of a task of the dataset");
  sub->add_option("--data", args->data, "Dataset (default: the one that comes with Tessera)");
  sub->add_option("--target", args->target,
                  "host, a machine (see targets), or cuda or opencl: the device at hand");
  sub->add_option("--threads", args->threads, "Threads of the code (default: all cores)")
      ->check(range(1, 1024))
      ->hide_default();
  sub->add_option(
      "--weights", args->weights,
      "What `tessera lm pretrain` wrote, shipped: what comes with Tessera for the target "
      "(default), or none: all legal values are equally likely");
  sub->add_option("--quality", args->quality,
                  "Quality to request: the share of candidates that are slower, 0 to 1")
      ->check(range(0.0, 1.0));
}

}  // namespace

void add_lm_generate(Flags& lm, std::function<int()>* run) {
  Flags* make = lm.add_subcommand("generate", "Write candidates of an operation or a task");
  const auto args = std::make_shared<LmArgs>();
  add_common(make, args.get());
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

  Flags* look = lm.add_subcommand("show", "Print a sentence and the probabilities of its answers");
  const auto shown = std::make_shared<LmArgs>();
  add_common(look, shown.get());
  look->footer(
      "Examples:\n  tessera lm show --op matmul:M=64,N=64,K=64 --target neoverse-v1 --threads 2");
  look->callback([shown, run] { *run = [shown] { return show(*shown); }; });
}

}  // namespace tessera::cli
