#include "tessera/app/tune/plan_scorer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::app {
namespace {

// Of the deviation of what is believed: how much a plan may be better than that.
constexpr double kHope = 0.5;
// Plans whose kernels have no times count as this share, and more by how many have none.
constexpr double kUnknownShare = 4;
// Plans next to the rules' by which the votes of judges are scaled.
constexpr int kReferences = 32;
// What the estimate counts beside a network that corrects it: such networks learnt from predicted
// times and correct measured ones too much.
constexpr float kEstimateVotes = 2;

}  // namespace

bool SumScorer::ready() const { return std::isfinite(costs_.expected_s({})); }

std::optional<double> SumScorer::expected(const plan::Decisions& plan) const {
  if (!costs_.side_by_side()) return std::nullopt;
  return costs_.expected_s(plan) / costs_.expected_s({});
}

KernelCorrections::Belief SumScorer::believe(const decide::Candidate& candidate) const {
  const plan::Decisions plan = costs_.space().decisions(candidate);
  const Result<const PlanTasks*> rules = costs_.tasks_of({}), tasks = costs_.tasks_of(plan);
  // Decisions that do not fit each other are no plan: not an error of the model.
  if (!rules || !tasks) return {INFINITY, 0};
  return corrections_.believe(**rules, **tasks, expected(plan));
}

std::vector<float> SumScorer::score(std::span<const decide::Candidate> plans) {
  std::vector<float> out;
  for (const decide::Candidate& c : plans) {
    ++scored_;
    double share = believe(c).share;
    if (!std::isfinite(share))
      share = kUnknownShare + costs_.unknown_share(costs_.space().decisions(c));
    out.push_back(static_cast<float>(-share));
  }
  return out;
}

std::vector<float> SumScorer::spread(std::span<const decide::Candidate> plans) {
  std::vector<float> out;
  for (const decide::Candidate& c : plans)
    out.push_back(static_cast<float>(kHope * believe(c).deviation));
  return out;
}

void SumScorer::observe(const decide::Candidate& candidate, double share) {
  const plan::Decisions plan = costs_.space().decisions(candidate);
  const Result<const PlanTasks*> rules = costs_.tasks_of({}), tasks = costs_.tasks_of(plan);
  if (rules && tasks && observed_.insert(**tasks).second)
    corrections_.observe(**rules, **tasks, share, expected(plan));
}

Result<std::unique_ptr<NetworkScorer>> NetworkScorer::make(const graph::Graph& imported,
                                                           const graph::PassOptions& passes,
                                                           const std::vector<std::string>& weights,
                                                           PlanCosts& costs,
                                                           PlanEstimates& estimates) {
  TESSERA_TRY(PlanGraph graph, PlanGraph::make(imported, passes, "plans"));
  std::unique_ptr<NetworkScorer> out(new NetworkScorer(std::move(graph), costs, estimates));
  for (const std::string& file : weights) {
    TESSERA_TRY(nn::TrainedGraphNetwork network, nn::load_graph_network(file));
    const auto reads = network.spec.hyper.find("estimate");
    out->estimated_ = out->estimated_ || (reads != network.spec.hyper.end() && reads->second != 0);
    TESSERA_TRY(out->scorers_.emplace_back(), model::GraphScorer::make(std::move(network), 1));
  }
  return out;
}

// Measured times say more; where only some kernels have one, what is believed of the others counts
// as it compares on those that have both.
double NetworkScorer::estimate(const decide::Candidate& candidate) {
  const Result<const PlanTasks*> plan = costs_.tasks_of(costs_.space().decisions(candidate));
  if (!plan) return 0;
  const double share = sums_.believe(candidate).share, rules = costs_.expected_s({});
  if (std::isfinite(share) && std::isfinite(rules)) return share * rules;
  double measured = 0, believed = 0, unmeasured = 0;
  for (const auto& [key, count] : **plan) {
    const task::Task* task = costs_.find(key);
    const double guess = task == nullptr ? 0 : count * estimates_.seconds(*task);
    if (const double known = costs_.seconds_of(key); known > 0) {
      measured += count * known;
      believed += guess;
    } else {
      unmeasured += guess;
    }
  }
  return measured + unmeasured * (measured > 0 && believed > 0 ? measured / believed : 1);
}

Result<NetworkScorer::Votes> NetworkScorer::votes(std::span<const decide::Candidate> plans) {
  std::vector<PlanGraph::Measured> rows;
  for (const decide::Candidate& c : plans) {
    plan::Decisions all = costs_.space().rules();
    for (const auto& [key, value] : costs_.space().decisions(c)) all[key] = value;
    double estimate_s = estimated_ ? estimate(c) : 0;
    // Nothing is known: as long as the rules' plan.
    if (estimated_ && estimate_s <= 0) estimate_s = estimate(costs_.space().preferred());
    rows.push_back({std::move(all), 0, estimate_s});
  }
  TESSERA_TRY(const graphset::ConfigGraph graph, graph_.with(rows));
  Votes out;
  for (const auto& scorer : scorers_) {
    TESSERA_TRY(out.emplace_back(), scorer->score(graph));
  }
  if (estimated_) {
    std::vector<float>& last = out.emplace_back();
    for (const PlanGraph::Measured& row : rows)
      last.push_back(-static_cast<float>(std::log(row.estimate_s)));
  }
  return out;
}

Result<void> NetworkScorer::find_scales() {
  Rng rng(1);
  const task::PlanSpace& space = costs_.space();
  std::vector<decide::Candidate> near = {space.preferred()};
  for (int i = 1; i < kReferences; ++i) {
    if (auto next = space.mutate(near[0], rng)) near.push_back(*std::move(next));
  }
  TESSERA_TRY(const Votes found, votes(near));
  for (const std::vector<float>& row : found) {
    const auto n = static_cast<float>(row.size());
    Scale scale{.mean = std::accumulate(row.begin(), row.end(), 0.0f) / n};
    float squares = 0;
    for (const float v : row) squares += (v - scale.mean) * (v - scale.mean);
    if (squares > 0) scale.deviation = std::sqrt(squares / n);
    scales_.push_back(scale);
  }
  return {};
}

std::vector<float> NetworkScorer::score(std::span<const decide::Candidate> plans) {
  if (scales_.empty() && !find_scales()) return {};
  const Result<Votes> found = votes(plans);
  if (!found) return {};
  scored_ += std::ssize(plans);
  std::vector<float> out(plans.size(), 0);
  for (std::size_t j = 0; j < found->size(); ++j) {
    const float weight =
        j < scorers_.size() ? 1 : kEstimateVotes * static_cast<float>(scorers_.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] += weight * ((*found)[j][i] - scales_[j].mean) / scales_[j].deviation;
  }
  return out;
}

}  // namespace tessera::app
