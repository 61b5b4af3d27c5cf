// tessera lm: schedules written by a language model.
#include "tessera/app/cli/lm/lm.h"

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/train/trainer_process.h"

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

}  // namespace

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
  add_lm_eval(*sub, run);
}

}  // namespace tessera::cli
