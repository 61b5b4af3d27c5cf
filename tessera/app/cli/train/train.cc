// tessera train: hands its arguments to tessera-train, or trains trees itself.
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/train/trainer_process.h"
#include "tessera/app/cli/train/trees.h"

namespace tessera::cli {

void add_train(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("train", "Train a cost model on a dataset");
  sub->footer(
      "The flags are those of tessera-train, which is built where libtorch is found.\n"
      "Boosted trees need no libtorch: tessera train --model gbt --help");
  // Where the trainer is there, it explains its own flags.
  if (!find_trainer().empty()) sub->leave_help();
  sub->prefix_command();
  sub->callback([sub, run] {
    const std::vector<std::string> words = sub->remaining();
    *run = [words] {
      return asks_for_trees(words) ? train_trees(words)
                                   : run_trainer(words, "; boosted trees need none (--model gbt)");
    };
  });
}

}  // namespace tessera::cli
