#include "tessera/driver/tune/plan_judge.h"

namespace tessera::driver {

Result<std::vector<double>> SumJudge::judge(const std::vector<plan::Decisions>& plans) {
  std::vector<double> out;
  out.reserve(plans.size());
  for (const plan::Decisions& p : plans) out.push_back(costs_.seconds(p));
  return out;
}

Result<std::unique_ptr<NetworkJudge>> NetworkJudge::make(const graph::Graph& imported,
                                                         const graph::PassOptions& passes,
                                                         const std::vector<plan::Decided>& points,
                                                         const std::vector<std::string>& weights) {
  TESSERA_TRY(PlanGraph graph, PlanGraph::make(imported, passes, "plans"));
  plan::Decisions rules;
  for (const plan::Decided& d : points) rules[d.point.key] = d.text();
  std::unique_ptr<NetworkJudge> out(new NetworkJudge(std::move(graph), std::move(rules)));
  for (const std::string& file : weights) {
    TESSERA_TRY(nn::TrainedGraphNetwork network, nn::load_graph_network(file));
    TESSERA_TRY(out->scorers_.emplace_back(), model::GraphScorer::make(std::move(network), 1));
  }
  return out;
}

Result<std::vector<double>> NetworkJudge::judge(const std::vector<plan::Decisions>& plans) {
  std::vector<PlanGraph::Measured> rows;
  for (const plan::Decisions& changes : plans) {
    plan::Decisions all = rules_;
    for (const auto& [key, value] : changes) all[key] = value;
    rows.push_back({std::move(all), 0});
  }
  TESSERA_TRY(const graphset::ConfigGraph graph, graph_.with(rows));
  std::vector<float> sum(plans.size(), 0);
  for (const auto& scorer : scorers_) {
    TESSERA_TRY(const std::vector<float> scores, scorer->score(graph));
    model::add_standardized(scores, &sum);
  }
  std::vector<double> out;
  out.reserve(sum.size());
  for (const float s : sum) out.push_back(-static_cast<double>(s));
  return out;
}

}  // namespace tessera::driver
