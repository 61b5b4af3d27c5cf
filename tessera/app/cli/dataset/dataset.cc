// tessera dataset: measured candidates to learn from.
#include "tessera/app/cli/dataset/dataset.h"

#include "tessera/app/cli/common/command.h"

namespace tessera::cli {

void add_dataset(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("dataset", "Measured candidates to learn from");
  sub->footer(
      "Examples:\n  tessera dataset collect zoo:resnet18 --db a.db\n"
      "  tessera dataset import a.db -o my.ds\n  tessera dataset stats my.ds\n"
      "docs/guide/learning.md says more.");
  sub->require_subcommand(1, 1);
  add_dataset_collect(*sub, run);
  add_dataset_sample(*sub, run);
  add_dataset_build(*sub, run);
  add_dataset_measure(*sub, run);
  add_dataset_generate(*sub, run);
  add_dataset_graphs(*sub, run);
  add_dataset_import(*sub, run);
  add_dataset_export(*sub, run);
  add_dataset_show(*sub, run);
  add_dataset_stats(*sub, run);
  add_dataset_split(*sub, run);
  add_dataset_replay(*sub, run);
  add_dataset_update(*sub, run);
  add_dataset_verify(*sub, run);
}

}  // namespace tessera::cli
