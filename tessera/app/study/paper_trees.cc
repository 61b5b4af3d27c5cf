// Studies that train boosted trees and score them on networks held out.
#include <filesystem>
#include <map>

#include "tessera/app/study/paper_study.h"
#include "tessera/app/study/train_trees.h"
#include "tessera/support/rng.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::app {

// Features lie beside the records that they are of.
struct TreeFits {
  struct Records {
    TemporaryFolder folder;
    dataset::Dataset data;
  };
  std::map<std::string, Records> records;            // by folder and machine
  std::map<std::string, dataset::Evaluation> tests;  // on the test part, by all that they depend on
};

namespace {

// Features take long to compute and much room: those of the machine studied alone.
Result<dataset::Dataset> copy_machine(const std::string& from, const std::string& machine,
                                      const std::string& to) {
  TESSERA_TRY(dataset::Dataset data, dataset::load(from));
  std::erase_if(data.examples, [&](const dataset::Example& e) {
    const std::string& target = data.machines[static_cast<std::size_t>(e.machine)].target;
    return target.find(machine) == std::string::npos;
  });
  TESSERA_DO(dataset::save(data, to));
  return data;
}

Result<const TreeFits::Records*> records_of(const std::string& folder, const std::string& machine,
                                            const std::string& key, TreeFits* fits) {
  const auto found = fits->records.find(key);
  if (found != fits->records.end()) return &found->second;
  TESSERA_TRY(TemporaryFolder place, TemporaryFolder::make("study"));
  TESSERA_TRY(dataset::Dataset data, copy_machine(folder, machine, place.path() + "/data"));
  return &fits->records.emplace(key, TreeFits::Records{std::move(place), std::move(data)})
              .first->second;
}

Result<double> column_of(const dataset::Evaluation& e, const std::string& column) {
  if (column == "rmse") return e.average.rmse;
  if (column == "r2") return e.average.r2;
  if (column == "pairwise") return e.average.pairwise;
  if (column == "top-1") return e.top1;
  if (column == "top-5") return e.top5;
  const std::size_t space = column.find(' ');
  const auto network = e.networks.find(column.substr(0, space));
  if (network == e.networks.end()) {
    return make_error(ErrorCode::kInvalidArgument, "the dataset has no test records of {}",
                      column.substr(0, space));
  }
  return column.ends_with("top-1") ? network->second.top1 : network->second.top5;
}

// On the test part.
Result<dataset::Evaluation> test_of(const TreesSpec::Row& row, const dataset::Dataset& data,
                                    TrainTreesOptions o) {
  o.split.most_tasks = row.tasks;
  o.split.most_per_task = row.per_task;
  if (row.objective != nullptr) {
    o.objective = row.objective;
    TESSERA_TRY(TrainTreesResult trained, train_trees(o));
    return std::move(trained.test);
  }
  TESSERA_TRY(const dataset::Split split, dataset::split(data, o.split));
  TESSERA_TRY(const std::vector<std::string> networks, data.network_names(o.split.holdout));
  Rng rng(o.seed);
  std::vector<float> scores;
  for (std::size_t i = 0; i < data.examples.size(); ++i)
    scores.push_back(static_cast<float>(rng.uniform()));
  return dataset::evaluate(data, split, dataset::kTest, scores, networks);
}

// All that an evaluation depends on.
std::string key_of(const std::string& records, const TreesSpec& spec, const TreesSpec::Row& row,
                   std::uint64_t seed) {
  return fmt::format("{}\n{} {} {} {} {} {}", records, row.objective ? row.objective : "none",
                     row.tasks, row.per_task, spec.rounds, spec.depth, seed);
}

}  // namespace

std::shared_ptr<TreeFits> make_tree_fits() { return std::make_shared<TreeFits>(); }

Result<StudyResult> trees_study(const TreesSpec& spec, const StudyOptions& options) {
  const std::string from = (std::filesystem::path(options.data) / spec.folder).string();
  const std::string source = from + "\n" + spec.machine;
  TreeFits& fits = *options.trees;
  TESSERA_TRY(const TreeFits::Records* records, records_of(from, spec.machine, source, &fits));
  TrainTreesOptions o;
  o.data = records->folder.path() + "/data";
  o.features = records->folder.path() + "/features";
  o.rounds = spec.rounds;
  o.depth = spec.depth;
  o.threads = options.threads;
  o.split.by_reduction = true;
  StudyResult out;
  out.data = fmt::format("{} records", records->data.examples.size());
  out.machine = spec.machine;
  out.seeds = options.all_seeds();
  out.measure = "on the test networks";
  out.columns = spec.columns;
  std::size_t done = 0, total = 0;
  for (const TreesSpec::Row& row : spec.rows) {
    for (const std::uint64_t seed : out.seeds)
      total += fits.tests.contains(key_of(source, spec, row, seed)) ? 0 : 1;
  }
  for (const TreesSpec::Row& row : spec.rows) {
    StudyRow& values = out.rows.emplace_back();
    values.name = row.name;
    values.values.resize(spec.columns.size());
    for (const std::uint64_t seed : out.seeds) {
      const std::string key = key_of(source, spec, row, seed);
      auto test = fits.tests.find(key);
      if (test == fits.tests.end()) {
        if (options.progress && !options.progress("trainings", done++, total))
          return make_error(ErrorCode::kRunFailed, "interrupted");
        o.seed = o.split.seed = seed;
        TESSERA_TRY(dataset::Evaluation fitted, test_of(row, records->data, o));
        test = fits.tests.emplace(key, std::move(fitted)).first;
      }
      for (std::size_t c = 0; c < spec.columns.size(); ++c) {
        TESSERA_TRY(const double value, column_of(test->second, spec.columns[c]));
        values.values[c].push_back(value);
      }
    }
  }
  return out;
}

}  // namespace tessera::app
