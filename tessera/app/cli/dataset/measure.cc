// tessera dataset measure: a sample, timed on this machine.
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/app/collect/dataset_measure.h"
#include "tessera/support/counted.h"

namespace tessera::cli {
namespace {

struct MeasureArgs {
  std::string target = "host";
  int samples = 0;  // 0: as usual
  app::MeasureSampleOptions options;
};

int measure(MeasureArgs& args) {
  app::MeasureSampleOptions& o = args.options;
  const Result<target::Target> target = measure::ask_target(args.target);
  if (!target) return report(target.error());
  o.target = *target;
  o.command = "dataset measure";
  // Side by side twice as many are taken.
  if (args.samples > 0) o.measure.max_samples = (args.samples + 1) / 2;
  ProgressLine line(30);
  const auto progress = [&](const app::MeasureSampleProgress& p) {
    line.show(fmt::format("{} of {} candidates, {}{}{}", p.done, p.candidates,
                          clock_text(p.elapsed_s), p.task.empty() ? "" : ": ", p.task));
    return !interrupted();
  };
  const Result<app::MeasureSampleResult> done = app::measure_sample(o, progress);
  line.finish();
  if (!done) return report(done.error());
  fmt::print("{} of {} ({} valid), {} earlier; ended by {}\n", counted(done->records, "record"),
             counted(done->tasks, "task"), done->valid, done->earlier, done->stopped_by);
  return interrupted() ? interrupt_code() : kOk;
}

}  // namespace

void add_dataset_measure(Flags& dataset, std::function<int()>* run) {
  Flags* measure_app = dataset.add_subcommand(
      "measure", "Steps 2 and 3 on this machine, also on its GPU: a sample, timed in turns");
  const auto measure_args = std::make_shared<MeasureArgs>();
  app::MeasureSampleOptions& m = measure_args->options;
  const int least_samples = m.measure.min_samples;  // twice as many side by side
  measure_app->add_option("FOLDER", m.folder, "Folder of `dataset sample`")->required();
  measure_app->add_option("--db", m.database, "Database of records to write")->required();
  measure_app->add_option("--target", measure_args->target,
                          "Where candidates run: host, cuda or opencl, the device at hand");
  measure_app
      ->add_option("--samples", measure_args->samples, "Samples of each candidate (default: 24)")
      ->check(range(2 * least_samples - 1, 1000))
      ->hide_default();
  measure_app
      ->add_option("--build-workers", m.measure.build_workers,
                   "Compilers side by side (default: one per core left free)")
      ->check(range(1, 1024))
      ->hide_default();
  measure_app->add_duration("--budget", m.budget_s, "Wall clock: 90s, 5m, or none (default)",
                            Flags::Zero::kNoLimit);
  measure_app->add_flag("--any-machine", m.any_machine,
                        "Also for the description of a machine that is not this one");
  measure_app->footer(
      "Examples:\n  tessera dataset measure my.ds --db a.db\n"
      "  tessera dataset measure my.ds --db a.db --target cuda\n"
      "Run the same command again to resume.");
  measure_app->callback([measure_args, run] {
    *run = [measure_args] {
      catch_interrupt();
      return measure(*measure_args);
    };
  });
}

}  // namespace tessera::cli
