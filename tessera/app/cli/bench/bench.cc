// tessera bench: models and operations compared with peer libraries.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>

#include <fmt/ranges.h>

#include "tessera/app/bench/bench_op.h"
#include "tessera/app/bench/machine.h"
#include "tessera/app/bench/peer.h"
#include "tessera/app/bench/peer_driver.h"
#include "tessera/app/bench/pool_bench.h"
#include "tessera/app/cli/bench/output.h"
#include "tessera/app/cli/bench/perplexity.h"
#include "tessera/app/cli/bench/text.h"
#include "tessera/app/cli/common/colour.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/peer_args.h"
#include "tessera/app/compile/float_products.h"
#include "tessera/app/tune/tune_problem.h"
#include "tessera/frontend/plan/rules.h"
#include "tessera/lang/te/ops/winograd.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/support/files.h"
#include "tessera/support/json.h"
#include "tessera/support/model_name.h"

namespace tessera::cli {
namespace {

struct BenchArgs {
  ModelArgs model;
  ModelBenchArgs model_bench;
  std::vector<std::string> ops, peers;
  std::string suite, schedule, target = "host", record, generate;
  PerplexityArgs perplexity;
  const Option *gave_samples = nullptr, *gave_time_limit = nullptr;
  int threads = 0;
  int samples = 20;
  double time_limit_s = 10, duration_s = 0, warmup_s = 0;
  bool json = false, markdown = false, pool = false, list_ops = false, time_passes = false;
};

std::string describe(const te::OpParam& p) {
  if (p.default_value == te::kRequired) return fmt::format("{} (required)", p.doc);
  if (p.default_value == te::kDerived) return p.doc;
  return fmt::format("{} (default {})", p.doc, p.default_value);
}

std::string describe(const te::OpWord& w) {
  if (w.choices.empty()) return fmt::format("{} (required)", w.doc);
  return fmt::format("{}: {}", w.doc, fmt::join(w.choices, ", "));
}

int list_ops() {
  for (const te::OpEntry& op : te::op_table()) {
    fmt::print("{}\n    {}\n", op.name, op.doc);
    for (const te::OpParam& p : op.params) fmt::print("      {:<12} {}\n", p.name, describe(p));
    for (const te::OpWord& w : op.words) fmt::print("      {:<12} {}\n", w.name, describe(w));
    fmt::print("      {:<12} element type (default f32)\n", "dtype");
  }
  return kOk;
}

// The spec without the parameters that have their default value.
std::string short_text(const te::OpSpec& spec) {
  std::vector<std::string> parts;
  for (const te::OpEntry& op : te::op_table()) {
    if (op.name != spec.op) continue;
    for (const te::OpParam& p : op.params) {
      const auto it = spec.ints.find(p.name);
      const bool needed = p.default_value != te::kDerived;
      if (it != spec.ints.end() && needed && it->second != p.default_value) {
        parts.push_back(fmt::format("{}={}", p.name, it->second));
      }
    }
    for (const te::OpWord& w : op.words) {
      const auto it = spec.words.find(w.name);
      if (it != spec.words.end() && (w.choices.empty() || it->second != w.choices[0])) {
        parts.push_back(fmt::format("{}={}", w.name, it->second));
      }
    }
  }
  if (spec.dtype != DType::kF32) parts.push_back(fmt::format("dtype={}", to_text(spec.dtype)));
  return fmt::format("{}:{}", spec.op, fmt::join(parts, ","));
}

// One row of a table for documents: ours, then the fastest peer.
void print_markdown(const te::OpSpec& spec, const app::BenchResult& r, bool first) {
  if (first) {
    fmt::print(
        "| operation | threads | us | GFLOP/s | % of peak | best peer | its us | ratio | build ms "
        "|\n|---|---:|---:|---:|---:|---|---:|---:|---:|\n");
  }
  const app::PeerResult* best = app::best_peer(r);
  fmt::print("| `{}` | {} | {:.1f}{} | {:.1f} | {:.1f} | {} | {} | {} | {:.1f} |\n",
             short_text(spec), r.threads, r.median_us,
             r.verified ? (r.trusted ? "" : " (busy)") : " WRONG", r.gflops,
             100 * r.fraction_of_peak, best ? best->name : "",
             best ? fmt::format("{:.1f}{}", best->median_us, best->trusted ? "" : " (busy)") : "",
             best ? fmt::format("{:.2f}", best->ratio) : "", r.build_ms);
}

// The lines of --suite without comments, each with its number; none without the flag.
using SuiteLines = std::vector<std::pair<int, std::string>>;

Result<SuiteLines> suite_lines(const BenchArgs& args) {
  SuiteLines out;
  if (args.suite.empty()) return out;
  TESSERA_TRY(const std::string text, read_file(args.suite));
  std::stringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    line.erase(0, std::min(line.find_first_not_of(" \t\r"), line.size()));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) out.emplace_back(number, line);
  }
  return out;
}

bool names_algorithm(const std::string& op) { return op.find("algo=") != std::string::npos; }

struct GivenOp {
  te::OpSpec spec;
  bool fixed = false;  // the user named its algorithm
};

Result<std::vector<GivenOp>> given_ops(const BenchArgs& args, const target::Target& target,
                                       const SuiteLines& suite) {
  std::vector<GivenOp> out;
  TESSERA_TRY(const DType dtype, app::float_type(args.model.dtype));
  const auto parse = [&](const std::string& text) {
    const bool typed = dtype == DType::kF32 || text.find("dtype=") != std::string::npos;
    return app::parse_op(typed ? text : fmt::format("{},dtype={}", text, to_text(dtype)),
                         plan::rules_for(target));
  };
  for (const std::string& text : args.ops) {
    Result<te::OpSpec> spec = parse(text);
    if (!spec.ok()) return spec.error().with_context(text);
    out.push_back({std::move(spec).value(), names_algorithm(text)});
  }
  for (const auto& [number, line] : suite) {
    Result<te::OpSpec> spec = parse(line);
    if (!spec.ok())
      return spec.error().with_context(fmt::format("{}: line {}", args.suite, number));
    out.push_back({std::move(spec).value(), names_algorithm(line)});
  }
  return out;
}

// The text of --schedule, checked here so that the message names the file.
Result<std::optional<std::string>> given_schedule(const std::string& path) {
  if (path.empty() || path == kDefaultSchedule) return std::optional<std::string>();
  TESSERA_TRY(std::string text, read_file(path));
  if (const auto parsed = schedule::schedule_from_text(text); !parsed.ok())
    return parsed.error().with_context(path);
  return std::optional<std::string>(std::move(text));
}

// The operation as --plan has it, without the flag as it is. An exit code when that ends the run.
std::optional<int> apply_plan(const std::optional<app::PlanSchedules>& plan, bool strict,
                              bool fixed, te::OpSpec* spec, app::BenchOptions* options) {
  if (!plan.has_value()) return std::nullopt;
  plan::Plan of_op = plan->plan();
  if (fixed) of_op.decisions.clear();  // the user's algorithm stays, with its schedule in the plan
  const Result<app::PlannedOp> planned = app::planned_op(*spec, of_op);
  if (!planned.ok()) return report(planned.error().with_context(te::to_text(*spec)));
  if (!planned->schedule && strict) {
    fmt::print(stderr, "tessera: {}: task {} is not in the plan\n", te::to_text(*spec),
               planned->key);
    return kStrictMiss;
  }
  if (!planned->schedule) {
    print_warning(fmt::format("{}: task {} is not in the plan and gets its default schedule",
                              te::to_text(*spec), planned->key));
  }
  *spec = planned->spec;
  options->schedule_text = planned->schedule;
  return std::nullopt;
}

int bench_pool(const BenchArgs& args) {
  const app::PoolReport r = app::measure_pool(args.threads);
  if (args.json) {
    print_json({{"awake_us", r.awake_us},
                {"parked_us", r.parked_us},
                {"awake_all_us", r.awake_all_us},
                {"parked_all_us", r.parked_all_us},
                {"threads", r.threads}});
    return kOk;
  }
  fmt::print("{} threads\n{:<28} {:>8} {:>8}\n", r.threads, "us a loop", "awake", "parked");
  fmt::print("{:<28} {:>8.2f} {:>8.2f}\n", "empty bodies", r.awake_us, r.parked_us);
  fmt::print("{:<28} {:>8.2f} {:>8.2f}\n", "until all threads have begun", r.awake_all_us,
             r.parked_all_us);
  return kOk;
}

// A flag of models beside operations, or the other way around, which would change nothing.
std::optional<int> check_subject(const BenchArgs& args, bool of_models) {
  const ModelBenchArgs& m = args.model_bench;
  const std::vector<std::pair<std::string, bool>> flags =
      of_models ? std::vector<std::pair<std::string, bool>>{{"--schedule", !args.schedule.empty()},
                                                            {"--time-passes", args.time_passes}}
                : std::vector<std::pair<std::string, bool>>{
                      {"--inputs", !m.inputs.empty()},         {"--profile", m.profile},
                      {"--beside", !m.beside.empty()},         {"--batch", args.model.batch > 0},
                      {"--shape", !args.model.shapes.empty()}, {"--dim", !args.model.dims.empty()},
                      {"--value", !args.model.values.empty()}, {"--record", !args.record.empty()}};
  for (const auto& [name, given] : flags) {
    if (!given) continue;
    return report(make_error(ErrorCode::kInvalidArgument, "{} is for {}, not for {}", name,
                             of_models ? "operations" : "models",
                             of_models ? "models" : "operations"));
  }
  return std::nullopt;
}

int bench_ops(const BenchArgs& args, const target::Target& target, const SuiteLines& suite,
              const runtime::TimingOptions& timing) {
  const Result<std::vector<GivenOp>> list = given_ops(args, target, suite);
  if (!list.ok()) return report(list.error());
  if (list->empty()) {
    return report({ErrorCode::kInvalidArgument,
                   "nothing to do: give a model, --op, --suite, --pool or --list-ops"});
  }
  if (const auto code = check_subject(args, false)) return *code;
  Result<std::optional<std::string>> text = given_schedule(args.schedule);
  if (!text.ok()) return report(text.error());
  app::BenchOptions options{
      .threads = args.threads,
      .peers = is_all(args.peers) ? app::peer_names_on(target.kind) : args.peers,
      .schedule_text = std::move(text).value(),
      .timing = timing,
      .warmup_s = args.warmup_s};
  const PlanArgs& plan_args = args.model_bench.plan;
  const auto plan = plan_schedules(plan_args, target);
  if (!plan.ok()) return report(plan.error());
  warn_of_origin(plan_args, *plan, target, args.threads);
  app::PeakOf peak(target, args.threads, timing);
  std::vector<app::BenchResult> results;
  bool wrong = false;
  for (const GivenOp& given : *list) {
    te::OpSpec spec = given.spec;
    if (const auto code = apply_plan(*plan, plan_args.strict, given.fixed, &spec, &options))
      return *code;
    Result<app::BenchResult> r = app::bench_op(spec, target, options);
    if (!r.ok()) return report(r.error().with_context(te::to_text(spec)));
    // After the operation, so that a mistake in it is reported at once.
    const bool saves = te::winograd_tile(spec) > 0;
    const Result<double> fraction = peak.fraction(spec.dtype, r->gflops, saves);
    if (!fraction.ok()) return report(fraction.error());
    r->fraction_of_peak = *fraction;
    wrong = wrong || !r->verified;
    if (args.markdown) {
      print_markdown(spec, *r, results.empty());
    } else if (!args.json) {
      if (results.empty()) print_header();
      print_row(*r, args.time_passes);
    }
    if (std::fflush(stdout) != 0) {
      throw std::system_error(errno, std::generic_category(), "cannot write to standard output");
    }
    results.push_back(std::move(r).value());
  }
  if (args.json) {
    Json j;
    j["results"] = Json::array();
    for (const app::BenchResult& r : results) j["results"].push_back(to_json(r));
    print_json(j);
  } else {
    print_summary(results);
  }
  return wrong ? kWrongNumbers : kOk;
}

// What `generate` does where the user does not say: files of language models say nothing of it.
std::string text_activations(const BenchArgs& args) {
  return args.model.activations == "model" ? "int8" : args.model.activations;
}

// Whether there is one language model and nothing else.
bool alone(const BenchArgs& args) {
  const bool others = !args.ops.empty() || !args.suite.empty() || !args.peers.empty();
  return !args.model.model.empty() && !others;
}

int bench_generate(const BenchArgs& args) {
  if (!alone(args)) {
    return report({ErrorCode::kInvalidArgument,
                   "--generate times one language model; give its file or folder alone"});
  }
  TextBenchArgs text{.generate = args.generate,
                     .activations = text_activations(args),
                     .threads = args.threads,
                     .json = args.json,
                     .no_cache = args.model_bench.no_cache};
  if (args.gave_samples->count() > 0) text.samples = args.samples;
  if (args.gave_time_limit->count() > 0) text.time_limit_s = args.time_limit_s;
  return bench_text(args.model.model, text);
}

int run_perplexity(const BenchArgs& args) {
  if (!alone(args)) {
    return report({ErrorCode::kInvalidArgument,
                   "--perplexity is of one language model; give its file or folder alone"});
  }
  PerplexityArgs text = args.perplexity;
  text.activations = text_activations(args);
  text.threads = args.threads;
  text.json = args.json;
  text.no_cache = args.model_bench.no_cache;
  return bench_perplexity(args.model.model, text);
}

int bench(const BenchArgs& args) {
  if (args.list_ops) return list_ops();
  if (!args.perplexity.file.empty()) return run_perplexity(args);
  if (!args.generate.empty()) return bench_generate(args);
  if (args.pool) return bench_pool(args);
  runtime::TimingOptions timing{.samples = args.samples, .time_limit_s = args.time_limit_s};
  if (args.duration_s > 0) {
    // Every call is a sample of its own until the time is over.
    timing.sample_s = 0;
    timing.samples = std::numeric_limits<int>::max();
    timing.time_limit_s = args.duration_s;
  }
  const auto suite = suite_lines(args);
  if (!suite.ok()) return report(suite.error());
  std::vector<std::string> models;
  if (!args.model.model.empty()) models.push_back(args.model.model);
  for (const auto& [number, line] : *suite) {
    if (names_model(line)) models.push_back(line);
  }
  const Result<target::Target> target =
      fast_target(runtime::resolve_target(args.target), args.model);
  if (!target.ok()) return report(target.error());
  if (!models.empty()) {
    const std::size_t given = args.model.model.empty() ? 0 : 1;
    if (!args.ops.empty() || suite->size() + given != models.size()) {
      return report({ErrorCode::kInvalidArgument, "give models or operations, not both"});
    }
    if (const auto code = check_subject(args, true)) return *code;
    const auto& peers = is_all(args.peers) ? app::driver_peer_names() : args.peers;
    return bench_models(models, args.model, args.model_bench,
                        {*target, args.threads, peers, timing, args.warmup_s, args.record},
                        args.json, args.markdown);
  }
  return bench_ops(args, *target, *suite, timing);
}

}  // namespace

void add_bench(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("bench", "Time a model or operations, also in peer libraries");
  sub->footer(
      "Examples:\n  tessera bench zoo:resnet50 --threads 2 --peers ort --json\n"
      "  tessera bench model.onnx --shape input:1x3x224x224 --profile\n"
      "  tessera bench model.onnx --batch 8 --warmup 1s --duration 10s\n"
      "  tessera bench out                          # an artifact of `tessera compile`\n"
      "  tessera bench model.gguf --generate prompt=512,tokens=128\n"
      "  tessera bench model.gguf --perplexity text.txt --against exact\n"
      "  tessera bench --op matmul:M=1024,N=1024,K=1024 --threads 1 --peers openblas,blis,acl "
      "--json\n"
      "  tessera bench --suite bench/suites/core.txt --peers all");
  const auto args = std::make_shared<BenchArgs>();
  add_model_options(*sub, args->model, false);
  add_cache_option(*sub, args->model_bench.no_cache);
  sub->add_option(
         "--inputs", args->model_bench.inputs,
         "NumPy .npz with inputs of the model, or .npy with the only one; others are random")
      ->check(existing_file());
  sub->add_flag("--profile", args->model_bench.profile,
                "Print time, FLOP/s and bytes/s of each kernel of the model, the slowest first");
  add_plan_options(*sub, args->model_bench.plan);
  sub->add_flag("--no-plan", args->model_bench.no_plan,
                "The untuned default schedules (no plan is used without --plan)")
      ->excludes("--plan");
  sub->add_option("--beside", args->model_bench.beside,
                  "Other plans of the model, defaults, or loops (as written): timed in turns with "
                  "it, and profiled with --profile (repeatable)")
      ->delimiter(',');
  sub->add_option(
      "--op", args->ops,
      "Operation, e.g. conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,S=1,P=1 (repeatable); without "
      "algo= a convolution is computed as in a model, or as --plan has it");
  sub->add_option(
         "--suite", args->suite,
         "File with one operation or model (zoo:NAME, FILE.onnx) per line; # begins a comment")
      ->check(existing_file());
  add_threads_option(*sub, args->threads, "Threads of ours and of the peers");
  sub->add_option(
         "--peers", args->peers,
         fmt::format("Comma-separated, all, or none. Operations: {}. Models: {}",
                     fmt::join(app::peer_names(), ", "), fmt::join(app::driver_peer_names(), ", ")))
      ->delimiter(',');
  sub->add_option("--schedule", args->schedule,
                  "Schedule file for the operations (default: chosen without measuring, as for the "
                  "kernels of a model)")
      ->check(existing_file() | one_of({kDefaultSchedule}))
      ->excludes("--plan");
  add_target_option(*sub, args->target, TargetUse::kRun);
  add_fast_math_option(*sub, args->model);
  Option* generate =
      sub->add_option("--generate", args->generate,
                      "Time a language model instead: prompt=512,tokens=128 are the tokens it "
                      "reads, and generates behind them");
  Option* perplexity =
      sub->add_option("--perplexity", args->perplexity.file,
                      "Measure how well a language model predicts this text instead")
          ->check(existing_file())
          ->excludes(generate);
  sub->add_option("--tokens", args->perplexity.tokens, "Most tokens of the text")
      ->check(range(2, 1 << 20))
      ->needs(perplexity);
  sub->add_option("--against", args->perplexity.against,
                  "Another model with the same tokenizer to compare with, or exact: this one with "
                  "--activations float")
      ->needs(perplexity);
  args->gave_samples =
      sub->add_option("--samples", args->samples, "Clean samples of each")->check(range(1, 10000));
  args->gave_time_limit = sub->add_duration("--time-limit", args->time_limit_s,
                                            "For each model, operation and peer: 90s, 5m");
  sub->add_duration("--duration", args->duration_s,
                    "Call each for this long and time every call, instead of --samples: the "
                    "percentiles are those of single calls")
      ->excludes("--samples")
      ->excludes("--time-limit");
  sub->add_duration("--warmup", args->warmup_s,
                    "Call ours for this long before the first sample (default: none)",
                    Flags::Zero::kNoLimit);
  Option* json = sub->add_flag("--json", args->json, "Print JSON");
  sub->add_flag("--markdown", args->markdown, "Print a table for a document")->excludes(json);
  sub->add_option("--record", args->record,
                  "Folder to keep the run in, with machine, version and command: a new file of it, "
                  "which `tessera results` reads");
  sub->add_flag("--pool", args->pool,
                "Measure what a parallel loop costs, workers awake and asleep");
  sub->add_flag("--list-ops", args->list_ops, "Print the operations and their parameters");
  sub->add_flag("--time-passes", args->time_passes, "Print the build time of each pass to stderr");
  sub->callback([args, run] {
    *run = [args] {
      if (const Result<void> known = check_peers(args->peers); !known) return report(known.error());
      if (is_none(args->peers)) args->peers.clear();
      return bench(*args);
    };
  });
}

}  // namespace tessera::cli
