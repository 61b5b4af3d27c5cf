#include "tessera/app/cli/dataset/generate.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/collect/dataset_build.h"
#include "tessera/app/collect/dataset_measure.h"
#include "tessera/app/collect/dataset_sample.h"
#include "tessera/frontend/plan/convolution.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/measured_as.h"
#include "tessera/support/counted.h"

namespace tessera::cli {
namespace {

struct SampleArgs {
  std::vector<std::string> models, ops;
  std::string target = "host";
  app::SampleOptions options;
};

struct BuildArgs {
  app::BuildOptions options;
  std::optional<std::size_t> shard;  // none: all
};

struct MeasureArgs {
  std::string target = "host";
  int samples = 0;  // 0: as usual
  app::MeasureSampleOptions options;
};

struct GenerateArgs {
  SampleArgs sample;
  BuildArgs build;
  std::string output, runner;
  double budget_s = 0;
  bool any_machine = false;
};

// A name, or what `tessera-runner --machine` printed.
Result<target::Target> target_of(const std::string& text) {
  if (text.find("triple=") != std::string::npos) return target::target_from_text(text);
  return target::find_target(text);
}

// One a core of the machine that is to measure.
int default_threads(const std::string& name, const target::Target& target) {
  return target::measured_threads(target,
                                  name == "host" ? target::default_threads() : target.cores);
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

// Beside this program; or what the user named.
std::string runner_path(const std::string& named) {
  if (!named.empty()) return named;
  std::error_code error;
  return (std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "tessera-runner")
      .string();
}

// Runs it as a child with our terminal; returns its exit code.
int run_program(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(stdout);  // what we said comes before what it says
  const pid_t pid = fork();
  if (pid == 0) {
    execv(argv[0], argv.data());
    fmt::print(stderr, "tessera: cannot run {}: {}\n", words[0], std::strerror(errno));
    _exit(kUnreachable);
  }
  if (pid < 0) {
    return report(make_error(ErrorCode::kUnavailable, "cannot start {}", words[0]));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(kInternal);
}

int generate(GenerateArgs& args) {
  const Result<target::Target> target = target_of(args.sample.target);
  if (!target) return report(target.error());
  if (!target::runs_on_host(*target)) {
    return report(make_error(ErrorCode::kUnsupported,
                             "code for {} does not run here: sample and build, then run "
                             "tessera-runner on such a machine",
                             target->name));
  }
  catch_interrupt();
  if (const int code = sample(args.sample); code != kOk) return code;
  args.build.options.folder = args.sample.options.folder;
  if (const int code = build(args.build); code != kOk) return code;
  std::vector<std::string> words = {runner_path(args.runner)};
  for (std::size_t shard = 0; shard < args.sample.options.scope.shards; ++shard) {
    words.push_back(app::bundle_path(args.sample.options.folder, shard));
  }
  const std::string output =
      args.output.empty() ? args.sample.options.folder + "/records.jsonl" : args.output;
  words.insert(words.end(), {"-o", output});
  if (args.budget_s > 0) words.insert(words.end(), {"--budget", fmt::format("{}", args.budget_s)});
  if (args.any_machine) words.push_back("--any-machine");
  return run_program(std::move(words));
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

void add_build_options(Flags* sub, BuildArgs* args) {
  sub->add_option("--jobs", args->options.jobs, "Compilers side by side")->check(range(1, 1024));
  sub->add_duration("--build-timeout", args->options.timeout_s, "Time limit of one build: 90s, 5m");
}

}  // namespace

void add_dataset_steps(Flags& dataset, std::function<int()>* run) {
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

  Flags* all =
      dataset.add_subcommand("generate", "Sample, build and measure on this machine, in one go");
  const auto args = std::make_shared<GenerateArgs>();
  add_sample_options(all, &args->sample);
  add_build_options(all, &args->build);
  all->add_option("--records", args->output, "Records to write (default: FOLDER/records.jsonl)");
  all->add_duration(
      "--budget", args->budget_s,
      "Time of measuring: 90s, 5m, or none (default). Run the same command again to resume",
      Flags::Zero::kNoLimit);
  all->add_flag("--any-machine", args->any_machine,
                "Also for the description of a machine that is not this one");
  all->add_option("--runner", args->runner, "tessera-runner (default: beside this program)");
  all->footer("Examples:\n  tessera dataset generate zoo:resnet18 -o my.ds --budget 30m");
  all->callback([args, run] { *run = [args] { return generate(*args); }; });
}

}  // namespace tessera::cli
