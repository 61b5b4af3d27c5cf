#include "tessera/app/tune/plan_costs.h"

#include <algorithm>
#include <limits>

#include "tessera/app/tune/side_by_side.h"

namespace tessera::app {

Result<PlanCosts> PlanCosts::make(graph::Graph imported, graph::PassOptions passes,
                                  const task::PartitionOptions& partition) {
  PlanCosts out;
  graph::PassOptions first = passes;
  first.stop_after = graph::kLastUndecided;
  TESSERA_DO(graph::optimize(imported, first));
  out.undecided_ = std::move(imported);
  out.passes_ = std::move(passes);
  out.passes_.verify = false;
  out.passes_.shapes_only = true;
  out.partition_ = partition;
  return out;
}

Result<const PlanTasks*> PlanCosts::tasks_of(const plan::Decisions& decisions) {
  if (const auto known = plans_.find(decisions); known != plans_.end()) return &known->second;
  TESSERA_TRY(const task::PlannedGraph planned,
              task::apply_plan(undecided_, passes_, partition_, plan::Decider(decisions)));
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

Result<std::vector<plan::Decided>> PlanCosts::points() const {
  TESSERA_TRY(const task::PlannedGraph planned,
              task::apply_plan(undecided_, passes_, partition_, plan::Decider()));
  return planned.decided;
}

const task::Task* PlanCosts::find(const std::string& key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : &tasks_[it->second];
}

double PlanCosts::seconds_of(const std::string& key) const {
  const auto it = seconds_.find(key);
  return it == seconds_.end() ? 0 : it->second;
}

double PlanCosts::seconds(const plan::Decisions& decisions) {
  ++judged_;
  return expected_s(decisions);
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

}  // namespace tessera::app
