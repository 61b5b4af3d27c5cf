#include "tessera/app/tune/plan_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace tessera::app {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
// Of the deviation of what is believed: how much a plan may be better than that.
constexpr double kHope = 0.5;
// Plans that sums prefer and networks look at.
constexpr std::size_t kMet = 64;
// What the estimate counts beside a network that corrects it: such networks learnt from predicted
// times and correct measured ones too much.
constexpr std::size_t kEstimateVotes = 2;

}  // namespace

std::optional<double> SumJudge::expected(const plan::Decisions& plan) const {
  if (!costs_.side_by_side()) return std::nullopt;
  return costs_.expected_s(plan) / costs_.expected_s({});
}

KernelCorrections::Belief SumJudge::believe(const plan::Decisions& plan) const {
  const Result<const PlanTasks*> rules = costs_.tasks_of({}), tasks = costs_.tasks_of(plan);
  // Decisions that do not fit each other are no plan: not an error of the model.
  if (!rules || !tasks) return {kUnknown, 0};
  return corrections_.believe(**rules, **tasks, expected(plan));
}

Result<std::vector<double>> SumJudge::judge(const std::vector<plan::Decisions>& plans) {
  std::vector<double> out;
  out.reserve(plans.size());
  for (const plan::Decisions& p : plans) {
    const KernelCorrections::Belief belief = believe(p);
    out.push_back(belief.share - kHope * belief.deviation);
  }
  return out;
}

std::vector<plan::Decisions> SumJudge::met() const {
  std::vector<plan::Decisions> out;
  for (const auto& [decisions, tasks] : costs_.plans()) {
    if (!observed_.contains(tasks)) out.push_back(decisions);
  }
  return out;
}

void SumJudge::observe(const plan::Decisions& plan, double share) {
  const Result<const PlanTasks*> rules = costs_.tasks_of({}), tasks = costs_.tasks_of(plan);
  if (rules && tasks && observed_.insert(**tasks).second)
    corrections_.observe(**rules, **tasks, share, expected(plan));
}

Result<std::unique_ptr<NetworkJudge>> NetworkJudge::make(const graph::Graph& imported,
                                                         const graph::PassOptions& passes,
                                                         const std::vector<plan::Decided>& points,
                                                         const std::vector<std::string>& weights,
                                                         PlanCosts& costs,
                                                         PlanEstimates& estimates) {
  TESSERA_TRY(PlanGraph graph, PlanGraph::make(imported, passes, "plans"));
  plan::Decisions rules;
  for (const plan::Decided& d : points) rules[d.point.key] = d.text();
  std::unique_ptr<NetworkJudge> out(
      new NetworkJudge(std::move(graph), std::move(rules), costs, estimates));
  for (const std::string& file : weights) {
    TESSERA_TRY(nn::TrainedGraphNetwork network, nn::load_graph_network(file));
    const auto reads = network.spec.hyper.find("estimate");
    out->estimated_ = out->estimated_ || (reads != network.spec.hyper.end() && reads->second != 0);
    TESSERA_TRY(out->scorers_.emplace_back(), model::GraphScorer::make(std::move(network), 1));
  }
  return out;
}

// Networks look at the plans that promise most by sums.
std::vector<plan::Decisions> NetworkJudge::met() const {
  if (!estimated_) return {};
  std::vector<std::pair<double, plan::Decisions>> order;
  for (plan::Decisions& p : sums_.met()) {
    const double share = sums_.believe(p).share;
    if (share < 1) order.emplace_back(share, std::move(p));
  }
  std::sort(order.begin(), order.end());
  if (order.size() > kMet) order.resize(kMet);
  std::vector<plan::Decisions> out;
  out.reserve(order.size());
  for (auto& [share, p] : order) out.push_back(std::move(p));
  return out;
}

// Measured times say more; where only some kernels have one, what is believed of the others counts
// as it compares on those that have both.
double NetworkJudge::estimate(const plan::Decisions& changes) {
  const Result<const PlanTasks*> plan = costs_.tasks_of(changes);
  if (!plan) return 0;
  const double share = sums_.believe(changes).share, rules = costs_.seconds({});
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

Result<std::vector<double>> NetworkJudge::judge(const std::vector<plan::Decisions>& plans) {
  std::vector<PlanGraph::Measured> rows;
  std::set<std::size_t> unfit;  // decisions that are no plan together
  for (const plan::Decisions& changes : plans) {
    plan::Decisions all = rules_;
    for (const auto& [key, value] : changes) all[key] = value;
    double estimate_s = estimated_ ? estimate(changes) : 0;
    if (estimated_ && estimate_s <= 0) {
      unfit.insert(rows.size());
      estimate_s = estimate({});
    }
    rows.push_back({std::move(all), 0, estimate_s});
  }
  TESSERA_TRY(const graphset::ConfigGraph graph, graph_.with(rows));
  std::vector<float> sum(plans.size(), 0);
  for (const auto& scorer : scorers_) {
    TESSERA_TRY(const std::vector<float> scores, scorer->score(graph));
    model::add_standardized(scores, &sum);
  }
  if (estimated_) {
    std::vector<float> scores;
    for (const PlanGraph::Measured& row : rows)
      scores.push_back(-static_cast<float>(std::log(row.estimate_s)));
    for (std::size_t i = 0; i < kEstimateVotes * scorers_.size(); ++i)
      model::add_standardized(scores, &sum);
  }
  std::vector<double> out;
  out.reserve(sum.size());
  for (const float s : sum) out.push_back(-static_cast<double>(s));
  for (const std::size_t i : unfit) out[i] = kUnknown;
  return out;
}

}  // namespace tessera::app
