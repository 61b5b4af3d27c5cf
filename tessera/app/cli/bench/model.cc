// tessera bench MODEL.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <numeric>
#include <optional>
#include <system_error>

#include <fmt/ranges.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/bench/machine.h"
#include "tessera/app/cli/bench/output.h"
#include "tessera/app/cli/bench/record.h"
#include "tessera/app/cli/common/arrays.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/compile/about_model.h"
#include "tessera/app/compile/batch.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/support/counted.h"

namespace tessera::cli {
namespace {

constexpr const char *kDefaults = "defaults", *kLoops = "loops";  // of --beside

Json breakdown_json(const app::Breakdown& b) {
  Json j = {{"limit", b.limit()}};
  for (const app::Breakdown::Part& p : app::Breakdown::parts()) {
    std::string name(p.name);
    std::replace(name.begin(), name.end(), ' ', '_');
    j[name + "_us"] = b.*p.us;
  }
  return j;
}

// `breakdown`: of the steps, or empty.
Json profile_json(const std::vector<app::StepTime>& steps,
                  const std::vector<app::Breakdown>& breakdown) {
  auto list = Json::array();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const app::StepTime& s = steps[i];
    Json& step = list.push_back({{"name", s.name},
                                 {"node", s.origin},
                                 {"task", s.task},
                                 {"us", s.us},
                                 {"gflops", s.gflops},
                                 {"gbytes_per_s", s.gbytes_per_s}});
    if (!breakdown.empty()) step["breakdown"] = breakdown_json(breakdown[i]);
  }
  return list;
}

Json model_json(const app::ModelBenchResult& r) {
  Json j = to_json(r.bench);
  j["import_ms"] = r.import_ms;
  j["kernels"] = r.kernels;
  j["cached_kernels"] = r.cached_kernels;
  j["steps"] = r.steps;
  j["arena_bytes"] = r.arena_bytes;
  j["live_bytes"] = r.live_bytes;
  j["constant_bytes"] = r.constant_bytes;
  j["verified_by"] = r.verified_by;
  j["narrow_share"] = r.narrow_share;
  j["error_of_floats"] = r.error_of_floats;
  if (!r.wrong_node.empty()) j["wrong_node"] = r.wrong_node;
  if (r.agreement) {
    j["agreement"] = to_json(*r.agreement);
    j["agrees_with"] = r.agrees_with;
  }
  j["not_numbers"] = r.not_numbers;
  if (!r.profile.empty()) j["kernels_us"] = r.kernels_us();
  if (!r.profile.empty()) j["profile"] = profile_json(r.profile, r.breakdown);
  if (!r.breakdown.empty()) j["breakdown"] = breakdown_json(app::sum_of(r.breakdown));
  for (const std::vector<app::StepTime>& steps : r.beside_profiles)
    j["beside_profiles"].push_back(profile_json(steps, {}));
  return j;
}

// "arithmetic 71 %": the largest part of a kernel's time.
std::string limit_text(const app::Breakdown& b) {
  double most_us = 0;
  for (const app::Breakdown::Part& p : app::Breakdown::parts())
    most_us = std::max(most_us, b.*p.us);
  return fmt::format("{} {:.0f} %", b.limit(), b.us() > 0 ? 100 * most_us / b.us() : 0);
}

void print_profile(const app::ModelBenchResult& r, double peak) {
  const double total = r.kernels_us();
  const bool limits = !r.breakdown.empty();
  fmt::print("kernels, the slowest first:\n{:>10} {:>6} {:>9} {:>7} {:>8}  {}{}\n", "us", "%",
             "GFLOP/s", "% peak", "GB/s", limits ? fmt::format("{:<24}", "mostly") : "", "kernel");
  std::vector<std::size_t> order(r.profile.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return r.profile[a].us > r.profile[b].us; });
  for (const std::size_t i : order) {
    const app::StepTime& s = r.profile[i];
    fmt::print("{:>10.1f} {:>6.2f} {:>9.2f} {:>7.1f} {:>8.2f}  {}{}  [{}]\n", s.us,
               100 * s.us / total, s.gflops, peak > 0 ? 100 * s.gflops / peak : 0.0, s.gbytes_per_s,
               limits ? fmt::format("{:<24}", limit_text(r.breakdown[i])) : "", s.name, s.origin);
  }
  fmt::print("{:>10.1f} {:>6.2f}  all kernels, of the model's time\n", total,
             100 * total / r.bench.median_us);
  if (limits) fmt::print("{}\n", to_text(app::sum_of(r.breakdown)));
}

void print(const app::ModelBenchResult& r, double peak) {
  print_row(r.bench, false);
  // Of an artifact, steps are all that is known.
  const std::string kernels = r.kernels > 0 ? counted(r.kernels, "kernel") + " in " : "";
  fmt::print("    {}{}, {:.1f} MB of weights, {:.1f} MB of memory, checked by {}\n", kernels,
             counted(r.steps, "step"), static_cast<double>(r.constant_bytes) * 1e-6,
             static_cast<double>(r.arena_bytes) * 1e-6, r.verified_by);
  if (!r.wrong_node.empty()) fmt::print("    wrong in node {}\n", r.wrong_node);
  if (r.narrow_share > 0) {
    fmt::print("    {:.1f} % of multiplications in f16 or bf16", 100 * r.narrow_share);
    if (r.error_of_floats > 0) fmt::print(", {:.1e} of the range away from f32", r.error_of_floats);
    fmt::print("\n");
  }
  if (!r.faster_floats.empty()) fmt::print("    {}\n", r.faster_floats);
  if (r.agreement) fmt::print("    against {}: {}\n", r.agrees_with, to_text(*r.agreement));
  if (!r.not_numbers.empty() && !r.bench.verified) {
    fmt::print(
        "    every value of output {} is not a number, which proves nothing: random values may not "
        "suit the model; give real ones with --inputs FILE.npz or --value NAME=VALUE\n",
        fmt::join(r.not_numbers, " and "));
  }
  if (r.profile.empty()) return;
  print_profile(r, peak);
}

// An artifact alone: there is no model beside it to check the numbers or to give to a peer.
Result<app::ModelBenchResult> bench_artifact(const std::string& path, const NamedTensors& given,
                                             const BenchRun& run) {
  const int threads = run.threads;
  TESSERA_TRY(const auto loaded, artifact::load_artifact(path, {.threads = threads}));
  const artifact::Metadata& m = loaded->metadata();
  std::vector<std::string> names;
  std::vector<graph::TensorType> types;
  for (const artifact::TensorDescription& t : m.inputs) {
    names.push_back(t.name);
    types.push_back({t.dtype, t.shape});
  }
  std::vector<HostTensor> inputs = app::random_model_inputs(names, types, 1);
  for (const NamedTensor& t : given) {
    const auto it = std::find(names.begin(), names.end(), t.name);
    if (it == names.end()) {
      return make_error(ErrorCode::kInvalidArgument, "the model has no input '{}'; it has: {}",
                        t.name, fmt::join(names, " "));
    }
    inputs[static_cast<std::size_t>(it - names.begin())] = t.tensor;
  }
  // Checks types and shapes; the outputs are then written in place.
  TESSERA_TRY(std::vector<HostTensor> outputs, loaded->run(inputs));
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const HostTensor& t : inputs) in.push_back(t.data());
  for (HostTensor& t : outputs) out.push_back(t.data());
  runtime::InterleavedTimer timer(run.timing);
  const auto call = [&] { (void)loaded->run_in_place(in.data(), out.data()); };
  app::warm_up(run.warmup_s, call);
  timer.add(call);
  const runtime::Samples samples = timer.run()[0];
  app::ModelBenchResult result;
  result.verified_by = "nothing: an artifact alone has no reference";
  result.steps = static_cast<std::int64_t>(m.steps.size());
  result.arena_bytes = m.arena_bytes;
  result.constant_bytes = m.weights_bytes;
  app::BenchResult& bench = result.bench;
  bench.name = path;
  bench.threads = threads;
  bench.compared = false;
  bench.median_us = samples.median_s() * 1e6;
  bench.p10_us = samples.p10_s() * 1e6;
  bench.p90_us = samples.p90_s() * 1e6;
  bench.p99_us = samples.percentile(0.99) * 1e6;
  bench.trusted = samples.trusted;
  for (const artifact::StepDescription& s : m.steps)
    bench.gflops += s.flops / bench.median_us * 1e-3;
  for (const std::string& name : run.peers) {
    bench.peers.push_back({.name = name, .absent = "an artifact has no model for it"});
  }
  return result;
}

Result<app::ModelBenchResult> bench_batched(std::string model, std::int64_t batch,
                                            app::ModelBenchOptions options) {
  TESSERA_DO(set_batch(batch, model, options.compile.import.symbols));
  TESSERA_TRY(app::ModelBenchResult result, app::bench_model(model, options));
  if (batch > 0) result.bench.batch = batch;
  return result;
}

void print_markdown(const app::BenchResult& r, bool first) {
  if (first) {
    fmt::print(
        "| model | threads | ms | GFLOP/s | % of peak | best peer | its ms | ratio | build s |\n"
        "|---|---:|---:|---:|---:|---|---:|---:|---:|\n");
  }
  const app::PeerResult* peer = app::best_peer(r);
  fmt::print(
      "| `{}` | {} | {:.2f}{} | {:.1f} | {:.1f} | {} | {} | {} | {:.1f} |\n", r.name, r.threads,
      r.median_us * 1e-3, r.compared && !r.verified ? " WRONG" : (r.trusted ? "" : " (busy)"),
      r.gflops, 100 * r.fraction_of_peak, peer ? peer->name : "",
      peer ? fmt::format("{:.2f}{}", peer->median_us * 1e-3, peer->trusted ? "" : " (busy)") : "",
      peer ? fmt::format("{:.2f}", peer->ratio) : "", r.build_ms * 1e-3);
}

struct BesidePlan {
  PlanArgs args;
  std::optional<app::PlanSchedules> plan;  // none: the defaults, or the loops as written
};

// Each with the options of the model without a plan of its own, and the plan that it names.
Result<std::vector<BesidePlan>> add_beside(const std::vector<std::string>& names,
                                           const BenchRun& run, app::ModelBenchOptions* options) {
  std::vector<BesidePlan> out;
  for (const std::string& name : names) {
    BesidePlan& added = out.emplace_back();
    if (name != kDefaults && name != kLoops) {
      added.args = {.plan = name, .strict = false};
      TESSERA_TRY(added.plan, plan_schedules(added.args, run.target));
      warn_of_origin(added.args, added.plan, run.target, run.threads);
    }
    options->beside.push_back({name, added.plan, name == kLoops});
  }
  return out;
}

// Whether a build that is timed beside the model computes something else.
bool wrong_beside(const app::BenchResult& bench, const std::vector<std::string>& names) {
  return std::any_of(bench.peers.begin(), bench.peers.end(), [&](const app::PeerResult& p) {
    return !p.verified && std::find(names.begin(), names.end(), p.name) != names.end();
  });
}

Result<std::vector<std::string>> input_names(const std::string& model,
                                             const onnx::ImportOptions& import) {
  if (!artifact::is_artifact(model)) {
    TESSERA_TRY(const onnx::Model read, app::load_onnx(model));
    return app::open_inputs(read.graph, import);
  }
  TESSERA_TRY(const artifact::Metadata made, artifact::read_metadata(model));
  std::vector<std::string> names;
  for (const artifact::TensorDescription& input : made.inputs) names.push_back(input.name);
  return names;
}

}  // namespace

int bench_models(const std::vector<std::string>& models, const ModelArgs& flags,
                 const ModelBenchArgs& args, const BenchRun& run, bool json, bool markdown) {
  app::ModelBenchOptions options;
  Result<app::CompileOptions> compile = compile_options(flags, run.target);
  if (!compile) return report(compile.error());
  options.compile = std::move(compile).value();
  options.threads = run.threads;
  options.peers = run.peers;
  options.timing = run.timing;
  options.warmup_s = run.warmup_s;
  options.profile = args.profile;
  options.compile.progress = build_progress();
  options.compile.cache = kernel_cache(args.no_cache);
  Result<std::optional<app::PlanSchedules>> plan = plan_schedules(args.plan, run.target);
  if (!plan) return report(plan.error());
  warn_of_origin(args.plan, *plan, run.target, run.threads);
  const Result<std::vector<BesidePlan>> others = add_beside(args.beside, run, &options);
  if (!others) return report(others.error());
  options.compile.plan = *plan;
  NamedTensors given;
  if (!args.inputs.empty()) {
    Result<NamedTensors> inputs =
        read_arrays(args.inputs, [&] { return input_names(models[0], options.compile.import); });
    if (!inputs) return report(inputs.error());
    given = std::move(inputs).value();
    for (const NamedTensor& t : given) {
      options.inputs[t.name] = t.tensor;
      options.compile.import.shapes.try_emplace(t.name, t.tensor.shape());
    }
  }
  std::optional<RunRecord> record;
  if (!run.record.empty()) {
    Result<RunRecord> begun = RunRecord::begin(run.record, run.target);
    if (!begun) return report(begun.error());
    record = std::move(begun).value();
  }
  std::vector<app::BenchResult> results;
  auto list = Json::array();
  app::PeakOf peak(run.target, run.threads, run.timing);
  bool wrong = false;
  for (const std::string& model : models) {
    const struct {
      bool given;
      const char *what, *flag;
    } settled[] = {{run.target.is_gpu(), "target", "--target"},
                   {plan->has_value(), "schedules", "--plan"},
                   {!args.beside.empty(), "schedules", "--beside"},
                   {flags.batch > 0, "shapes", "--batch"}};
    for (const auto& s : settled) {
      if (!s.given || !artifact::is_artifact(model)) continue;
      return report(make_error(ErrorCode::kInvalidArgument, "{}: an artifact has its {}; drop {}",
                               model, s.what, s.flag));
    }
    Result<app::ModelBenchResult> result = artifact::is_artifact(model)
                                               ? bench_artifact(model, given, run)
                                               : bench_batched(model, flags.batch, options);
    if (const auto code = report_misses(args.plan, *plan)) return *code;
    for (const BesidePlan& b : *others) (void)report_misses(b.args, b.plan);
    if (!result) return report_model(app::about_model(result.error(), model));
    // After the first model, so that a mistake in it is reported at once. Convolutions in it may be
    // by Winograd's algorithm.
    app::BenchResult& bench = result->bench;
    const Result<double> fraction = peak.fraction(DType::kF32, bench.gflops, true);
    if (!fraction) return report(fraction.error());
    bench.fraction_of_peak = *fraction;
    wrong = wrong || (bench.compared && !bench.verified) || wrong_beside(bench, args.beside);
    Json& listed = list.push_back(model_json(*result));
    listed["device"] = target::to_text(run.target.kind);
    listed["dtype"] = to_text(options.compile.floats);
    if (record) {
      if (const Result<void> added = record->add(listed); !added) return report(added.error());
    }
    if (markdown) {
      print_markdown(bench, results.empty());
    } else if (!json) {
      if (results.empty()) print_header();
      print(*result, peak.gops(DType::kF32));
    }
    if (std::fflush(stdout) != 0) {
      throw std::system_error(errno, std::generic_category(), "cannot write to standard output");
    }
    results.push_back(bench);
  }
  if (record) fmt::print(stderr, "recorded in {}\n", record->path());
  if (json) {
    print_json({{"results", list}});
  } else {
    print_summary(results);
  }
  return wrong ? kWrongNumbers : kOk;
}

}  // namespace tessera::cli
