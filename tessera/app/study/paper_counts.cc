#include "tessera/app/study/paper_counts.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/learn/dataset/dataset.h"
#include "tessera/learn/graphset/network_inputs.h"
#include "tessera/learn/graphset/npz_file.h"
#include "tessera/learn/graphset/ranking.h"
#include "tessera/learn/model/graph_scorer.h"
#include "tessera/learn/nn/graph_network_file.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/split_commas.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

StudyRow counted_row(std::string name, const std::vector<double>& values) {
  StudyRow row{std::move(name), {}};
  for (const double v : values) row.values.push_back({v});
  return row;
}

// The datasets in the folder, itself among them, by their names below it.
Result<std::vector<std::pair<std::string, dataset::Dataset>>> datasets_below(
    const std::string& folder) {
  std::vector<std::pair<std::string, dataset::Dataset>> out;
  std::set<std::string> paths = {folder};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    paths.insert(entry.path().string());
  for (const std::string& path : paths) {
    if (!fs::exists(fs::path(path) / "dataset.json", error)) continue;
    TESSERA_TRY(dataset::Dataset data, dataset::load(path));
    out.emplace_back(path == folder ? "data" : fs::path(path).filename().string(), std::move(data));
  }
  if (!out.empty()) return out;
  return make_error(ErrorCode::kInvalidArgument, "{}: no dataset", folder);
}

std::string machine_name(const dataset::MachineInfo& machine) {
  const auto target = target::target_from_text(machine.target);
  if (!target.ok()) return machine.target.substr(0, machine.target.find(' '));
  if (target->is_gpu()) return target->name;
  return fmt::format("{}, threads: {}", target->cpu, machine.threads);
}

// Every .npz below, the folder's name first.
Result<std::vector<std::pair<std::string, std::string>>> plan_files(const std::string& data) {
  std::vector<std::pair<std::string, std::string>> out;
  std::error_code error;
  const fs::path plans = fs::path(data) / "plans";
  for (const auto& entry : fs::recursive_directory_iterator(plans, error)) {
    if (entry.path().extension() != ".npz") continue;
    out.emplace_back(fs::relative(entry.path(), plans, error).begin()->string(),
                     entry.path().string());
  }
  std::sort(out.begin(), out.end());
  if (!out.empty()) return out;
  return make_error(ErrorCode::kInvalidArgument, "{}: no plans", plans.string());
}

// Sums by column of rankings, for their mean.
struct Ranked3 {
  double tau = 0, top1 = 0, top10 = 0, top100 = 0;
  void add(const graphset::Ranking& r) {
    const auto at = [&](int k) {
      const auto found = r.slowdown.find(k);
      return found == r.slowdown.end() ? 0 : 100 * found->second;
    };
    tau += r.tau;
    top1 += at(1);
    top10 += at(10);
    top100 += at(100);
  }
  StudyRow row(std::string name, double graphs) const {
    return counted_row(std::move(name),
                       {tau / graphs, top1 / graphs, top10 / graphs, top100 / graphs});
  }
};

}  // namespace

Result<StudyResult> dataset_counts(const StudyOptions& options) {
  TESSERA_TRY(const auto datasets, datasets_below(options.data));
  StudyResult out;
  out.data = fmt::format("{} datasets", datasets.size());
  out.measure = kCounts;
  out.columns = {"machines", "tasks", "records"};
  for (const auto& [name, data] : datasets) {
    std::set<std::string> machines;
    for (const dataset::MachineInfo& m : data.machines) {
      const auto target = target::target_from_text(m.target);
      machines.insert(!target.ok() || target->is_gpu() ? m.target : target->cpu);
    }
    out.rows.push_back(counted_row(
        name, {static_cast<double>(machines.size()), static_cast<double>(data.tasks.size()),
               static_cast<double>(data.examples.size())}));
  }
  return out;
}

Result<StudyResult> machine_counts(const StudyOptions& options) {
  TESSERA_TRY(const auto datasets, datasets_below(options.data));
  std::map<std::string, std::size_t> records;
  for (const auto& [name, data] : datasets) {
    for (const dataset::Example& e : data.examples)
      ++records[machine_name(data.machines[static_cast<std::size_t>(e.machine)])];
  }
  StudyResult out;
  out.data = fmt::format("{} datasets", datasets.size());
  out.measure = kCounts;
  out.columns = {"records"};
  for (const auto& [name, count] : records)
    out.rows.push_back(counted_row(name, {static_cast<double>(count)}));
  return out;
}

Result<StudyResult> plan_counts(const StudyOptions& options) {
  TESSERA_TRY(const auto files, plan_files(options.data));
  struct Collection {
    double graphs = 0, nodes = 0, configs = 0;
  };
  std::map<std::string, Collection> collections;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (options.progress && !options.progress("graphs", i, files.size()))
      return make_error(ErrorCode::kRunFailed, "interrupted");
    TESSERA_TRY(const graphset::ConfigGraph graph, graphset::read_graph(files[i].second));
    Collection& c = collections[files[i].first];
    c.graphs += 1;
    c.nodes += static_cast<double>(graph.nodes());
    c.configs += static_cast<double>(graph.size());
  }
  StudyResult out;
  out.data = fmt::format("{} files of plans", files.size());
  out.measure = kCounts;
  out.columns = {"files", "mean nodes", "plans per file", "plans"};
  for (const auto& [name, c] : collections)
    out.rows.push_back(
        counted_row(name, {c.graphs, c.nodes / c.graphs, c.configs / c.graphs, c.configs}));
  return out;
}

Result<StudyResult> plans_of_others(const StudyOptions& options) {
  TESSERA_TRY(const auto files, plan_files(options.data));
  TESSERA_TRY(nn::TrainedGraphNetwork network,
              nn::load_graph_network(weights_folder() + "/cpu-plans.safetensors"));
  const std::vector<std::string> listed = split_commas(network.notes["graphs"]);
  const std::set<std::string> seen(listed.begin(), listed.end());
  TESSERA_TRY(const auto scorer, model::GraphScorer::make(std::move(network), options.threads));
  Ranked3 by_network, by_sum;
  double graphs = 0, plans = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (options.progress && !options.progress("graphs", i, files.size()))
      return make_error(ErrorCode::kRunFailed, "interrupted");
    if (seen.contains(fs::path(files[i].second).stem().string())) continue;
    TESSERA_TRY(const graphset::ConfigGraph read, graphset::read_graph(files[i].second));
    if (read.estimate_ns.empty()) continue;
    const graphset::ConfigGraph graph = graphset::merge_equal(read);
    TESSERA_TRY(const std::vector<float> scores, scorer->score(graph));
    std::vector<std::int64_t> all(static_cast<std::size_t>(graph.size()));
    std::iota(all.begin(), all.end(), 0);
    std::vector<float> sums(all.size());
    graphset::fill_estimates(graph, all, 1, sums.data());
    by_network.add(graphset::rank(graph, scores));
    by_sum.add(graphset::rank(graph, sums));
    graphs += 1;
    plans += static_cast<double>(graph.size());
  }
  if (graphs == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: the network was trained on every graph of it", options.data);
  }
  StudyResult out;
  out.data = fmt::format("{:.0f} files, {:.0f} plans", graphs, plans);
  out.machine = "one thread of a Sapphire Rapids";
  out.measure = "mean over the files";
  out.columns = {"tau", "top-1 error %", "top-10 error %", "top-100 error %"};
  out.rows = {by_network.row("GraphSAGE", graphs), by_sum.row("sum of kernels", graphs)};
  return out;
}

}  // namespace tessera::app
