// tessera dataset build: a sample as bundles of object code.
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/dataset/steps.h"
#include "tessera/support/counted.h"

namespace tessera::cli {
namespace {

int build_shard(const app::BuildOptions& options) {
  ProgressLine line;
  const auto progress = [&](const app::BuildProgress& p) {
    line.show(fmt::format("building shard {}: {} of {} candidates ({} failed), {}: {}",
                          options.shard, p.done, p.candidates, p.failed, clock_text(p.elapsed_s),
                          p.task));
    return !interrupted();
  };
  const Result<app::BuildResultOfShard> done = app::build_dataset(options, progress);
  line.finish();
  if (!done) return report(done.error());
  fmt::print("{}: {} built, {} failed, {} earlier, {}{}\n",
             app::bundle_path(options.folder, options.shard), done->built, done->failed,
             done->earlier, counted(done->tasks, "task"), done->finished ? "" : "; interrupted");
  return done->finished ? kOk : interrupt_code();
}

}  // namespace

int build(BuildArgs& args) {
  const Result<app::SampleManifest> manifest = app::read_manifest(args.options.folder);
  if (!manifest) return report(manifest.error());
  for (std::size_t shard = 0; shard < manifest->shards; ++shard) {
    if (args.shard && *args.shard != shard) continue;
    args.options.shard = shard;
    const int code = build_shard(args.options);
    if (code != kOk) return code;
  }
  if (!args.shard || *args.shard < manifest->shards) return kOk;
  return report(make_error(ErrorCode::kInvalidArgument, "there is no shard {}: {} has {}",
                           *args.shard, args.options.folder, manifest->shards));
}

void add_build_options(Flags* sub, BuildArgs* args) {
  sub->add_option("--jobs", args->options.jobs, "Compilers side by side")->check(range(1, 1024));
  sub->add_duration("--build-timeout", args->options.timeout_s, "Time limit of one build: 90s, 5m");
}

void add_dataset_build(Flags& dataset, std::function<int()>* run) {
  Flags* build_app =
      dataset.add_subcommand("build", "Step 2: compile a sample into bundles of object code");
  const auto build_args = std::make_shared<BuildArgs>();
  build_app->add_option("FOLDER", build_args->options.folder, "Folder of `dataset sample`")
      ->required();
  build_app->add_option("--shard", build_args->shard, "This one only");
  add_build_options(build_app, build_args.get());
  build_app->footer(
      "Examples:\n  tessera dataset build my.ds\n  tessera dataset build my.ds --shard 0 --jobs 4\n"
      "Step 3, on the machine to be measured: tessera-runner BUNDLE... -o RECORDS");
  build_app->callback([build_args, run] {
    *run = [build_args] {
      catch_interrupt();
      return build(*build_args);
    };
  });
}

}  // namespace tessera::cli
