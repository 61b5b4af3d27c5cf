#include "tessera/app/cli/train/trees.h"

#include <algorithm>
#include <map>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/study/train_trees.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

Json trained_json(const app::TrainTreesOptions& o, const app::TrainTreesResult& r) {
  Json networks = Json::object();
  for (const auto& [name, score] : r.test.networks) {
    networks[name] = {{"top1", score.top1}, {"top5", score.top5}, {"pairwise", score.pairwise}};
  }
  return {{"model", "gbt"},
          {"loss", o.objective},
          {"seed", o.seed},
          {"output", o.output},
          {"records", r.records},
          {"tasks", r.tasks},
          {"seconds", r.seconds},
          {"validation", {{"pairwise", r.validation.average.pairwise}}},
          {"test",
           {{"records", r.test.average.records},
            {"top1", r.test.top1},
            {"top5", r.test.top5},
            {"pairwise", r.test.average.pairwise},
            {"networks", networks}}}};
}

struct Words {
  std::string model, split = "by-network";
  bool json = false;
};

void add_flags(Flags& app, app::TrainTreesOptions& o, Words& words) {
  app.add_option("--model", words.model, "gbt: boosted trees")->check(one_of({"gbt"}));
  app.add_option("--data", o.data, "Folder of the dataset")->required();
  app.add_option("--features", o.features,
                 "Folder that keeps the features (made when absent; default: DATA-features)");
  app.add_option("--split", words.split, "within-task, by-task or by-network")
      ->check(one_of({"by-network", "by-task", "within-task"}));
  app.add_option("--holdout", o.split.holdout, "Test networks of by-network, comma-separated")
      ->delimiter(',');
  app.add_flag("--by-reduction", o.split.by_reduction,
               "Also leave out tasks with a reduction (expression and shapes) of a test task");
  app.add_flag("--quiet", o.split.quiet, "Only records taken while nothing else used the cores");
  app.add_option("--tasks", o.split.most_tasks, "Train on at most this many tasks");
  app.add_option("--per-task", o.split.most_per_task,
                 "Train on at most this many candidates of a task");
  app.add_option("--machine", o.machine, "Train on targets that contain this");
  app.add_option("--loss", o.objective, "rank or regression")
      ->check(one_of({"rank", "regression"}));
  app.add_option("--rounds", o.rounds, "Trees at most")->check(range(1, 100000));
  app.add_option("--depth", o.depth, "Depth of a tree")->check(range(1, 16));
  app.add_duration("--time-limit", o.time_limit_s, "Time limit of the fit: 90s, 5m, or none",
                   Flags::Zero::kNoLimit);
  app.add_option("--threads", o.threads, "Threads of this program; 0: all cores");
  app.add_option("--seed", o.seed, "Seed of all random choices");
  app.add_option("-o,--output", o.output, "Model file to write");
  app.add_option("--scores", o.scores, "Write an npz with the score of every example");
  app.add_flag("--json", words.json, "Print the final metrics as JSON");
}

}  // namespace

bool asks_for_trees(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--model=gbt") return true;
    if (words[i] == "--model" && i + 1 < words.size() && words[i + 1] == "gbt") return true;
  }
  return false;
}

int train_trees(std::vector<std::string> words) {
  app::TrainTreesOptions o;
  Words given;
  Flags app("Fit boosted trees to a dataset", "tessera train");
  add_flags(app, o, given);
  app.footer("Examples:\n  tessera train --model gbt --data my.ds -o trees.model");
  if (const std::optional<int> code = app.parse(std::move(words))) return *code;
  const Result<dataset::SplitKind> kind = dataset::split_kind_from_text(given.split);
  if (!kind.ok()) return report(kind.error());
  o.split.kind = *kind;
  if (o.features.empty()) o.features = o.data + "-features";
  if (o.threads < 1) o.threads = target::usable_cpus();
  o.note = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const Result<app::TrainTreesResult> r = app::train_trees(o);
  if (!r.ok()) return report(r.error());
  if (given.json) {
    print_json(trained_json(o, *r));
    return kOk;
  }
  fmt::print("gbt {}: {} records of {} tasks in {:.0f} s\nvalidation: pairwise {:.4f}\n",
             o.objective, r->records, r->tasks, r->seconds, r->validation.average.pairwise);
  if (r->test.average.records > 0) {
    fmt::print("test: top-1 {:.4f} top-5 {:.4f} pairwise {:.4f}\n", r->test.top1, r->test.top5,
               r->test.average.pairwise);
  }
  return kOk;
}

}  // namespace tessera::cli
