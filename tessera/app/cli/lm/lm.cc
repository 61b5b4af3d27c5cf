// tessera lm: schedules written by a language model.
#include "tessera/app/cli/lm/lm.h"

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/train/trainer_process.h"
#include "tessera/app/study/eval.h"
#include "tessera/machine/runtime/device/devices.h"

namespace tessera::cli {
namespace {

// Its flags are those of tessera-train.
void add_training(Flags& lm, const std::string& name, const std::string& help,
                  std::function<int()>* run) {
  Flags* sub = lm.add_subcommand(name, help);
  sub->footer("The flags are those of tessera-train, which is built where libtorch is found.");
  // Where the trainer is there, it explains its own flags.
  if (!find_trainer().empty()) sub->leave_help();
  sub->prefix_command();
  sub->callback([sub, name, run] {
    std::vector<std::string> words = {"lm", name};
    for (const std::string& word : sub->remaining()) words.push_back(word);
    *run = [words] { return run_trainer(words, ""); };
  });
}

std::string data_of(const LmArgs& args) {
  return args.data.empty() ? app::data_folder() : args.data;
}

}  // namespace

Result<app::WrittenTask> make_task(const LmArgs& args, bool with_best) {
  TESSERA_TRY(target::Target target, runtime::resolve_target(args.target));
  if (args.threads > 0) target = target::code_target(target, args.threads);
  return app::make_written_task({.op = args.op,
                                 .task = args.task,
                                 .data = data_of(args),
                                 .target = target,
                                 .with_best = with_best});
}

void add_task_options(Flags* sub, LmArgs* args) {
  sub->add_option("--op", args->op, "Operation, e.g. matmul:M=64,N=64,K=64 (see bench --list-ops)");
  sub->add_option("--task", args->task, "Instead: key of a task of the dataset");
  sub->add_option("--data", args->data, "Dataset (default: the one that comes with Tessera)");
  add_target_option(*sub, args->target, TargetUse::kCode);
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

void add_lm(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("lm", "Schedules as sentences that a language model writes");
  sub->footer(
      "Examples:\n  tessera lm corpus zoo:resnet18 --sentences 100000 -o drawn\n"
      "  tessera lm generate --op matmul:M=64,N=64,K=64 --count 5\n"
      "docs/guide/learning.md says more.");
  sub->require_subcommand(1, 1);
  add_lm_corpus(*sub, run);
  add_training(*sub, "pretrain", "Train a language model on sentences", run);
  add_training(*sub, "finetune", "Train one further, on those that were measured", run);
  add_lm_generate(*sub, run);
  add_lm_show(*sub, run);
  add_lm_eval(*sub, run);
}

}  // namespace tessera::cli
