// tessera dataset collect: candidates of many tasks, measured on this machine.
#include "tessera/app/collect/collect.h"

#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/app/compile/float_products.h"
#include "tessera/frontend/plan/convolution.h"
#include "tessera/machine/target/measured_as.h"
#include "tessera/support/counted.h"
#include "tessera/trials/measure/confine.h"

namespace tessera::cli {
namespace {

struct CollectArgs {
  std::vector<std::string> models, ops, types = {"f32"};
  std::string target = "host";
  app::CollectOptions options;
  bool json = false;
};

int run_collect(CollectArgs& args) {
  app::CollectOptions& o = args.options;
  const Result<target::Target> target = measure::ask_target(args.target);
  if (!target) return report(target.error());
  o.target = *target;
  app::CompileOptions compile;
  compile.target = o.target;
  for (const std::string& type : args.types) {
    const Result<DType> floats = app::float_type(type);
    if (!floats) return report(floats.error());
    compile.floats = *floats;
    for (const std::string& name : args.models) o.subjects.push_back({name, false, compile});
  }
  for (const std::string& spec : args.ops) o.subjects.push_back({spec, true, compile});
  const int threads = target::measured_threads(o.target, o.measure.threads);
  o.measure = measure::survey_options();
  o.measure.threads = threads;
  catch_interrupt();
  ProgressLine line(30);
  app::CollectCallbacks callbacks;
  callbacks.interrupted = interrupted;
  callbacks.progress = [&](const app::CollectProgress& p) {
    line.show(
        fmt::format("{} of {} tasks complete, {} records ({} valid) of {} wanted, {:.1f}/s, {}: {}",
                    p.complete, p.tasks, p.records, p.valid, p.wanted,
                    static_cast<double>(p.records) / std::max(1e-9, p.elapsed_s),
                    clock_text(p.elapsed_s), p.task));
  };
  if (const std::string& why = measure::confinement_note(); !why.empty()) {
    line.say("tessera: " + why);
  }
  const Result<app::CollectResult> done = app::collect(o, callbacks);
  line.finish();
  if (!done) return report_model(done.error());
  for (const std::string& bug : done->bugs) fmt::print(stderr, "tessera: {}\n", bug);
  fmt::print(stderr,
             "{:.0f} s, {:.1f} before the first candidate; drawing {:.1f} s, builders {:.1f} s of "
             "processor time, measuring {:.1f} s\n",
             done->elapsed_s, done->prepared_s, done->draw_s, done->build_s, done->run_s);
  if (args.json) {
    print_json({{"records", done->records},
                {"valid", done->valid},
                {"tasks", done->tasks},
                {"earlier", done->earlier},
                {"skipped", done->skipped},
                {"lost", done->lost},
                {"seconds", done->elapsed_s},
                {"stopped_by", done->stopped_by}});
    return interrupted() ? interrupt_code() : kOk;
  }
  // A busy machine disturbs trials; they are drawn again.
  const std::string lost =
      done->lost > 0 ? fmt::format(", {} lost", counted(done->lost, "trial")) : "";
  fmt::print("{} of {} ({} valid), {} earlier, {} skipped{}; ended by {}\n",
             counted(done->records, "record"), counted(done->tasks, "task"), done->valid,
             done->earlier, counted(done->skipped, "task"), lost, done->stopped_by);
  return interrupted() ? interrupt_code() : kOk;
}

}  // namespace

void add_dataset_collect(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("collect", "Measure candidates of many tasks on this machine");
  const auto args = std::make_shared<CollectArgs>();
  sub->add_option("MODEL", args->models, "ONNX files or zoo:NAME[@parameter=value,...]");
  sub->add_option("--op", args->ops, "Operation, as in bench --op (repeatable)");
  sub->add_option("--task", args->options.tasks,
                  "Only tasks with these keys, as `tessera tasks` lists them (repeatable)");
  sub->add_option("--db", args->options.database, "Database of records to write")->required();
  sub->add_option("--per-task", args->options.per_task, "Records of one task in the end")
      ->check(positive());
  sub->add_option("--round", args->options.round, "Candidates of one task in a row")
      ->check(positive());
  sub->add_option("--uniform", args->options.uniform_share,
                  "Share drawn from the whole space, the rest near the fastest")
      ->check(range(0.0, 1.0));
  sub->add_option("--max-flops", args->options.most_flops, "Leave tasks with more work out")
      ->check(positive());
  sub->add_option("--algorithms", args->options.algorithms,
                  fmt::format("Algorithms of convolutions that have a choice: {}",
                              fmt::join(plan::convolution_algorithms(), ", ")))
      ->delimiter(',');
  sub->add_option("--shard", args->options.shard,
                  "Number of the part of the tasks to measure, from 0");
  sub->add_option("--shards", args->options.shards, "Number of parts")->check(positive());
  sub->add_duration("--budget", args->options.budget_s, "Wall clock: 90s, 5m, or none (default)",
                    Flags::Zero::kNoLimit);
  add_target_option(*sub, args->target, TargetUse::kMeasure);
  sub->add_option("--dtype", args->types, "Types to compute f32 models in: f32, f16, bf16")
      ->delimiter(',');
  add_threads_option(*sub, args->options.measure.threads, "Threads of the measured code");
  sub->add_option("--seed", args->options.seed, "Seed of all random choices");
  sub->add_flag("--json", args->json, "Print JSON");
  sub->footer(
      "Examples:\n  tessera dataset collect zoo:resnet18 --db a.db --per-task 200 --budget 30m\n"
      "  tessera dataset collect --op matmul:M=64,N=64,K=64 --db a.db\n"
      "Run the same command again to resume.");
  sub->callback([args, run] { *run = [args] { return run_collect(*args); }; });
}

}  // namespace tessera::cli
