// tessera dataset update: a dataset of an older version.
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/app/collect/dataset_import.h"
#include "tessera/app/tune/record_update.h"

namespace tessera::cli {
namespace {

struct UpdateArgs {
  std::string folder, output;
};

Result<app::UpdatedDataset> update_and_save(const UpdateArgs& args) {
  TESSERA_TRY(const dataset::Dataset old, dataset::load(args.folder));
  ProgressLine line;
  app::UpdatedDataset done = app::bring_up_to_date(old);
  app::read_networks_again(&done.dataset, [&](const std::string& what) { line.show(what); });
  line.finish();
  TESSERA_DO(dataset::save(done.dataset, args.output));
  return done;
}

int run_update(const UpdateArgs& args) {
  const Result<app::UpdatedDataset> done = update_and_save(args);
  if (!done) return report(done.error());
  fmt::print(
      "{}: {} of {} records, {} of {} tasks ({} were another one under other names); {} "
      "records without steps left out\n",
      args.output, done->dataset.examples.size(), done->records, done->dataset.tasks.size(),
      done->tasks, done->merged, done->without_steps);
  return kOk;
}

}  // namespace

void add_dataset_update(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand(
      "update", "Bring a dataset of an older version up to date: tasks, steps, networks");
  const auto args = std::make_shared<UpdateArgs>();
  sub->add_option("FOLDER", args->folder, "Dataset")->required();
  sub->add_option("-o,--output", args->output, "Folder to write; may be the same")->required();
  sub->footer("Examples:\n  tessera dataset update old.ds -o new.ds");
  sub->callback([args, run] { *run = [args] { return run_update(*args); }; });
}

}  // namespace tessera::cli
