// tessera dataset generate: sample, build and measure in one go.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include <sys/wait.h>
#include <unistd.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/dataset/steps.h"

namespace tessera::cli {
namespace {

struct GenerateArgs {
  SampleArgs sample;
  BuildArgs build;
  std::string output, runner;
  double budget_s = 0;
  bool any_machine = false;
};

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

}  // namespace

void add_dataset_generate(Flags& dataset, std::function<int()>* run) {
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
