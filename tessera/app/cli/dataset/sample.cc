// tessera dataset sample: candidates of the tasks of models.
#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/dataset/steps.h"
#include "tessera/frontend/plan/convolution.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/measured_as.h"
#include "tessera/support/counted.h"

namespace tessera::cli {
namespace {

// One a core of the machine that is to measure.
int default_threads(const std::string& name, const target::Target& target) {
  return target::measured_threads(target,
                                  name == "host" ? target::default_threads() : target.cores);
}

}  // namespace

Result<target::Target> target_of(const std::string& text) {
  if (text.find("triple=") != std::string::npos) return target::target_from_text(text);
  return target::find_target(text);
}

int sample(SampleArgs& args) {
  app::SampleScope& scope = args.options.scope;
  Result<target::Target> target = target_of(args.target);
  if (!target) return report(target.error());
  scope.target = std::move(target).value();
  if (args.options.threads == 0) args.options.threads = default_threads(args.target, scope.target);
  app::CompileOptions compile;
  compile.target = scope.target;
  for (const std::string& name : args.models) scope.subjects.push_back({name, false, compile});
  for (const std::string& spec : args.ops) scope.subjects.push_back({spec, true, compile});
  ProgressLine line;
  const auto progress = [&](std::size_t done, std::size_t all) {
    line.show(fmt::format("sampling: {} of {} tasks", done, all));
    return !interrupted();
  };
  const Result<app::SampleResult> done = app::sample_dataset(args.options, progress);
  line.finish();
  if (!done) return report_model(done.error());
  if (interrupted()) return interrupt_code();
  fmt::print("{} of {} in {} ({} were there), {} skipped: {}\n",
             counted(done->candidates, "candidate"), counted(done->tasks, "task"),
             counted(scope.shards, "shard"), done->earlier, counted(done->skipped, "task"),
             args.options.folder);
  return kOk;
}

void add_sample_options(Flags* sub, SampleArgs* args) {
  app::SampleOptions& o = args->options;
  sub->add_option("MODEL", args->models, "ONNX files or zoo:NAME[@parameter=value,...]");
  sub->add_option("--op", args->ops, "Operation, as in bench --op (repeatable)");
  sub->add_option("-o,--output", o.folder, "Folder of the dataset")->required();
  sub->add_option("--per-task", o.per_task, "Candidates of one task")->check(positive());
  sub->add_option("--target", args->target,
                  "host, a machine (see targets), or what tessera-runner --machine prints");
  o.threads = 0;
  sub->add_option("--threads", o.threads,
                  "Threads of the measured code (default: one per core of the target)")
      ->check(range(1, 1024))
      ->hide_default();
  sub->add_option("--shards", o.scope.shards, "Number of parts to build and measure on their own")
      ->check(range(1, 10000));
  sub->add_option("--uniform", o.uniform_share,
                  "Share drawn from the whole space, the rest near the default")
      ->check(range(0.0, 1.0));
  sub->add_option("--max-flops", o.scope.most_flops, "Leave tasks with more work out")
      ->check(positive());
  sub->add_option("--algorithms", o.scope.algorithms,
                  fmt::format("Algorithms of convolutions that have a choice: {}",
                              fmt::join(plan::convolution_algorithms(), ", ")))
      ->delimiter(',');
  sub->add_option("--seed", o.scope.seed, "Seed of all random choices");
}

void add_dataset_sample(Flags& dataset, std::function<int()>* run) {
  Flags* sample_app =
      dataset.add_subcommand("sample", "Step 1: draw candidates of the tasks of models");
  const auto sample_args = std::make_shared<SampleArgs>();
  add_sample_options(sample_app, sample_args.get());
  sample_app->footer(
      "Examples:\n  tessera dataset sample zoo:resnet18 -o my.ds --per-task 200\n"
      "  tessera dataset sample zoo:resnet18 -o my.ds --target neoverse-v1 --shards 4");
  sample_app->callback([sample_args, run] {
    *run = [sample_args] {
      catch_interrupt();
      return sample(*sample_args);
    };
  });
}

}  // namespace tessera::cli
