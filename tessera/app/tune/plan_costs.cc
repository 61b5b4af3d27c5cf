#include "tessera/app/tune/plan_costs.h"

#include <algorithm>
#include <array>
#include <limits>

#include "tessera/app/tune/side_by_side.h"

namespace tessera::app {
namespace {

using decide::Point;
using decide::PointKind;
using plan::Decisions;

// Layouts this near in the order of the network may meet without a conversion between them.
constexpr std::size_t kNear = 3;

// What gains most often first; to store between the parts of a kernel gained nothing alone.
constexpr std::array kOrder = {PointKind::kFront,     PointKind::kSplit,   PointKind::kAlgorithm,
                               PointKind::kPointwise, PointKind::kMerge,   PointKind::kPrecision,
                               PointKind::kInteger,   PointKind::kStorage, PointKind::kLayout};

// The other value of a point of two.
std::pair<const std::string, std::string> flipped(const Point& p) {
  return {p.name, p.label(p.preferred == 0 ? 1 : 0)};
}

}  // namespace

Result<const PlanTasks*> PlanCosts::tasks_of(const plan::Decisions& decisions) {
  if (const auto known = plans_.find(decisions); known != plans_.end()) return &known->second;
  TESSERA_TRY(const task::PlannedGraph planned, space_.apply(decisions));
  PlanTasks out;
  for (const task::Task& task : planned.tasks.tasks) {
    out[task.key] += task.weight;
    if (index_.try_emplace(task.key, tasks_.size()).second) tasks_.push_back(task);
  }
  if (side_by_side_) {
    std::vector<Call>& calls = calls_[decisions];
    std::vector<std::vector<std::size_t>> before = calls_before(planned.tasks);
    for (std::size_t c = 0; c < before.size(); ++c) {
      calls.push_back({planned.tasks.tasks[planned.tasks.calls[c].task].key, std::move(before[c])});
    }
  }
  return &plans_.emplace(decisions, std::move(out)).first->second;
}

const task::Task* PlanCosts::find(const std::string& key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : &tasks_[it->second];
}

double PlanCosts::seconds_of(const std::string& key) const {
  const auto it = seconds_.find(key);
  return it == seconds_.end() ? 0 : it->second;
}

double PlanCosts::expected_s(const plan::Decisions& decisions) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  const Result<const PlanTasks*> plan = tasks_of(decisions);
  if (!plan) return kUnknown;
  double sum = 0;
  for (const auto& [key, count] : **plan) {
    const auto known = seconds_.find(key);
    if (known == seconds_.end() || !(known->second > 0)) return kUnknown;
    sum += count * known->second;
  }
  return side_by_side_ ? sum - gained_ * (sum - overlapped_s(decisions)) : sum;
}

double PlanCosts::unknown_share(const plan::Decisions& decisions) {
  const Result<const PlanTasks*> plan = tasks_of(decisions);
  if (!plan || (*plan)->empty()) return 1;
  const auto unknown = std::count_if((*plan)->begin(), (*plan)->end(),
                                     [&](const auto& t) { return !(seconds_of(t.first) > 0); });
  return static_cast<double>(unknown) / static_cast<double>((*plan)->size());
}

double PlanCosts::overlapped_s(const plan::Decisions& decisions) const {
  std::vector<RunningKernel> kernels;
  for (const Call& c : calls_.at(decisions)) {
    const auto share = shares_.find(c.key);
    kernels.push_back({seconds_of(c.key), share == shares_.end() ? 1 : share->second, c.after});
  }
  return side_by_side_seconds(kernels);
}

void PlanCosts::calibrate(const plan::Decisions& decisions, double seconds) {
  // Below this, what is gained side by side is noise.
  constexpr double kLeastShare = 0.02;
  gained_ = 0;
  const double chain = expected_s(decisions);
  if (!side_by_side_ || chain == std::numeric_limits<double>::infinity()) return;
  const double most = chain - overlapped_s(decisions);
  if (most > kLeastShare * chain) gained_ = std::clamp((chain - seconds) / most, 0.0, 1.0);
}

Result<void> visit_neighbours(PlanCosts& costs, const std::function<bool()>& stop) {
  TESSERA_DO(costs.tasks_of({}));
  // Decisions that do not fit each other are no plans: not an error of the model.
  const auto visit = [&](const Decisions& decisions) { (void)costs.tasks_of(decisions); };
  for (const PointKind kind : kOrder) {
    std::vector<const Point*> points;
    for (const Point& p : costs.space().points()) {
      if (p.kind == kind) points.push_back(&p);
    }
    for (const Point* p : points) {
      for (std::int32_t v = 0; v < std::ssize(p->labels); ++v) {
        if (stop()) return {};
        if (v != p->preferred) visit({{p->name, p->label(v)}});
      }
    }
    if (kind != PointKind::kLayout || points.empty()) continue;
    visit({{plan::info(kind).family, plan::kFirst}});
    for (std::size_t i = 0; i < points.size(); ++i) {
      for (std::size_t j = i + 1; j < std::min(points.size(), i + 1 + kNear) && !stop(); ++j)
        visit({flipped(*points[i]), flipped(*points[j])});
    }
  }
  return {};
}

}  // namespace tessera::app
