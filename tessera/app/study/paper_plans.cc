#include "tessera/app/study/paper_plans.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <set>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/learn/graphset/network_inputs.h"
#include "tessera/learn/graphset/npz_file.h"
#include "tessera/learn/graphset/ranking.h"
#include "tessera/learn/model/graph_scorer.h"
#include "tessera/learn/nn/graph_network_file.h"
#include "tessera/support/split_commas.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlansMachine = "one thread of a Sapphire Rapids";
constexpr int kScorings = 3;  // of which the shortest counts

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

// A graph that the shipped network was not trained on.
struct JudgedGraph {
  std::string name;
  graphset::Ranking by_network, by_sum;
  double plans = 0;
  double run_s = 0, score_s = 0;  // of a plan: its recorded run; processor time of its score
};

double processor_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The first scoring compiles the network for the graph.
Result<std::vector<float>> timed_scores(const graphset::ConfigGraph& graph,
                                        model::GraphScorer* scorer, double* seconds) {
  TESSERA_TRY(std::vector<float> scores, scorer->score(graph));
  *seconds = HUGE_VAL;
  for (int i = 0; i < kScorings; ++i) {
    const double start = processor_s();
    TESSERA_TRY(scores, scorer->score(graph));
    *seconds = std::min(*seconds, processor_s() - start);
  }
  return scores;
}

Result<JudgedGraph> judge(const graphset::ConfigGraph& graph, bool timed,
                          model::GraphScorer* scorer) {
  JudgedGraph out{.name = graph.name, .plans = static_cast<double>(graph.size())};
  std::vector<float> scores;
  if (timed) {
    TESSERA_TRY(scores, timed_scores(graph, scorer, &out.score_s));
    out.score_s /= out.plans;
  } else {
    TESSERA_TRY(scores, scorer->score(graph));
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(graph.size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> sums(all.size());
  graphset::fill_estimates(graph, all, 1, sums.data());
  out.by_network = graphset::rank(graph, scores);
  out.by_sum = graphset::rank(graph, sums);
  const auto timed_plans = static_cast<double>(
      std::ranges::count_if(graph.runtime_ns, [](std::int64_t ns) { return ns > 0; }));
  for (const std::int64_t ns : graph.runtime_ns)
    out.run_s += 1e-9 * static_cast<double>(ns) / std::max(1.0, timed_plans);
  return out;
}

// In the order of their files.
Result<std::vector<JudgedGraph>> judge_unseen(const StudyOptions& options, bool timed) {
  TESSERA_TRY(const auto files, plan_files(options.data));
  TESSERA_TRY(nn::TrainedGraphNetwork network,
              nn::load_graph_network(weights_folder() + "/cpu-plans.safetensors"));
  const std::vector<std::string> listed = split_commas(network.notes["graphs"]);
  const std::set<std::string> seen(listed.begin(), listed.end());
  TESSERA_TRY(const auto scorer, model::GraphScorer::make(std::move(network), options.threads));
  std::vector<JudgedGraph> out;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (options.progress && !options.progress("graphs", i, files.size()))
      return make_error(ErrorCode::kRunFailed, "interrupted");
    const std::string stem = fs::path(files[i].second).stem().string();
    if (seen.contains(stem)) continue;
    TESSERA_TRY(const graphset::ConfigGraph read, graphset::read_graph(files[i].second));
    if (read.estimate_ns.empty()) continue;
    TESSERA_TRY(JudgedGraph judged, judge(graphset::merge_equal(read), timed, scorer.get()));
    judged.name = files[i].first + "/" + stem;
    out.push_back(std::move(judged));
  }
  if (!out.empty()) return out;
  return make_error(ErrorCode::kInvalidArgument, "{}: the network was trained on every graph of it",
                    options.data);
}

StudyResult result_of(const std::vector<JudgedGraph>& graphs) {
  double plans = 0;
  for (const JudgedGraph& g : graphs) plans += g.plans;
  StudyResult out;
  out.data = fmt::format("{} files, {:.0f} plans", graphs.size(), plans);
  out.machine = kPlansMachine;
  return out;
}

// Best of k chosen / best - 1, in percent.
double error_of(const graphset::Ranking& r, int k) {
  const auto found = r.slowdown.find(k);
  return found == r.slowdown.end() ? 0 : 100 * found->second;
}

StudyRow mean_row(std::string name, const std::vector<JudgedGraph>& graphs,
                  graphset::Ranking JudgedGraph::*ranking) {
  std::vector<double> sums(4);
  for (const JudgedGraph& g : graphs) {
    const graphset::Ranking& r = g.*ranking;
    const double values[] = {r.tau, error_of(r, 1), error_of(r, 10), error_of(r, 100)};
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += values[i] / static_cast<double>(graphs.size());
  }
  return single_row(std::move(name), sums);
}

}  // namespace

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
  for (const auto& [name, c] : collections) {
    out.rows.push_back(
        single_row(name, {c.graphs, c.nodes / c.graphs, c.configs / c.graphs, c.configs}));
  }
  return out;
}

Result<StudyResult> plans_of_others(const StudyOptions& options) {
  TESSERA_TRY(const std::vector<JudgedGraph> graphs, judge_unseen(options, false));
  StudyResult out = result_of(graphs);
  out.measure = "mean over the files";
  out.columns = {"tau", "top-1 error %", "top-10 error %", "top-100 error %"};
  out.rows = {mean_row("GraphSAGE", graphs, &JudgedGraph::by_network),
              mean_row("sum of kernels", graphs, &JudgedGraph::by_sum)};
  return out;
}

Result<StudyResult> plans_by_file(const StudyOptions& options) {
  TESSERA_TRY(const std::vector<JudgedGraph> graphs, judge_unseen(options, false));
  StudyResult out = result_of(graphs);
  out.measure = "file";
  out.columns = {"tau", "top-1 error %", "tau of the sum of kernels"};
  for (const JudgedGraph& g : graphs) {
    out.rows.push_back(
        single_row(g.name, {g.by_network.tau, error_of(g.by_network, 1), g.by_sum.tau}));
  }
  return out;
}

Result<StudyResult> scoring_times(const StudyOptions& options) {
  TESSERA_TRY(const std::vector<JudgedGraph> graphs, judge_unseen(options, true));
  StudyResult out = result_of(graphs);
  out.measure = "file";
  out.columns = {"run of a plan, ms", "its score, ms", "times less"};
  for (const JudgedGraph& g : graphs)
    out.rows.push_back(single_row(g.name, {1e3 * g.run_s, 1e3 * g.score_s, g.run_s / g.score_s}));
  return out;
}

}  // namespace tessera::app
