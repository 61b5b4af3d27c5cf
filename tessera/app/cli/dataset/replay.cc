// tessera dataset replay: whether records still lower to the programs that were measured.
#include "tessera/app/study/replay.h"

#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/dataset/dataset.h"

namespace tessera::cli {
namespace {

constexpr std::size_t kShown = 3;  // mismatches

struct ReplayArgs {
  std::string folder, pick_from;
  std::size_t per_family = 200;
  int threads = 0;
  bool update = false;
};

Result<void> pick(const ReplayArgs& args) {
  TESSERA_TRY(const dataset::Dataset all, dataset::load(args.pick_from));
  return dataset::save(app::pick_by_family(all, args.per_family), args.folder);
}

int run_replay(const ReplayArgs& args) {
  if (!args.pick_from.empty()) {
    if (const Result<void> picked = pick(args); !picked) return report(picked.error());
  }
  if (args.update || !args.pick_from.empty()) {
    const Result<std::size_t> kept = app::keep_programs(args.folder, args.threads);
    if (!kept) return report(kept.error());
  }
  const Result<app::ReplayResult> done = app::replay(args.folder, args.threads);
  if (!done) return report(done.error());
  for (std::size_t i = 0; i < std::min(kShown, done->mismatches.size()); ++i) {
    fmt::print("{}\n", app::to_text(done->mismatches[i], args.folder));
  }
  for (const auto& [family, records] : done->families) fmt::print("{:>8}  {}\n", records, family);
  fmt::print("{} of {} records lower to the programs that were measured\n",
             done->records - done->mismatches.size(), done->records);
  return done->mismatches.empty() ? kOk : kInternal;
}

}  // namespace

void add_dataset_replay(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("replay",
                                  "Compare the loop programs of records with those that were kept");
  const auto args = std::make_shared<ReplayArgs>();
  sub->add_option("FOLDER", args->folder, "Dataset with a file programs.txt")->required();
  sub->add_flag("--update", args->update, "Keep the programs as they are today");
  sub->add_option("--pick-from", args->pick_from,
                  "Make FOLDER of records of this dataset, of every family of tasks");
  sub->add_option("--per-family", args->per_family, "Records to pick of each")->check(positive());
  add_threads_option(*sub, args->threads, "Threads of this program");
  sub->footer("Examples:\n  tessera dataset replay my.ds\n  tessera dataset replay my.ds --update");
  sub->callback([args, run] { *run = [args] { return run_replay(*args); }; });
}

}  // namespace tessera::cli
