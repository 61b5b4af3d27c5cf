// What plans of a model cost: the kernels that a plan runs, and the time that each was measured to
// take.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/task/plan_space.h"

namespace tessera::app {

// A model with some decisions, as kernels: how often each runs, by the key of the task.
using PlanTasks = std::map<std::string, int>;

class PlanCosts {
 public:
  explicit PlanCosts(task::PlanSpace space) : space_(std::move(space)) {}

  const task::PlanSpace& space() const { return space_; }

  // The rules decide what is not given. Kept for the next time. kInvalidArgument: a value that the
  // point does not have after what was decided before it.
  Result<const PlanTasks*> tasks_of(const plan::Decisions& decisions);

  // Of all plans so far, in the order in which they were met first.
  const std::vector<task::Task>& tasks() const { return tasks_; }

  // Of that key, as long as no plan is added; null: there is none.
  const task::Task* find(const std::string& key) const;

  // What a run of each task takes, by key.
  void set_seconds(std::map<std::string, double> seconds) { seconds_ = std::move(seconds); }
  double seconds_of(const std::string& key) const;  // 0: not measured
  // Of a whole plan; infinite when a task was not measured or the decisions do not fit each other.
  double expected_s(const plan::Decisions& decisions);
  // Of the kernels of a plan: how many were not measured.
  double unknown_share(const plan::Decisions& decisions);

  // Before the first plan: branches of the model may run side by side.
  void run_side_by_side() { side_by_side_ = true; }
  bool side_by_side() const { return side_by_side_; }
  // What share of the device each task keeps busy, by key; all of it where nothing is said.
  void set_device_shares(std::map<std::string, double> shares) { shares_ = std::move(shares); }
  // A model with those decisions took so long as a whole: how much of what could be gained side by
  // side is gained.
  void calibrate(const plan::Decisions& decisions, double seconds);

 private:
  task::PlanSpace space_;
  std::map<plan::Decisions, PlanTasks> plans_;
  std::map<std::string, std::size_t> index_;  // into tasks_
  std::vector<task::Task> tasks_;
  std::map<std::string, double> seconds_;
  // Of models whose branches run side by side.
  struct Call {
    std::string key;
    std::vector<std::size_t> after;
  };
  double overlapped_s(const plan::Decisions& decisions) const;
  bool side_by_side_ = false;
  double gained_ = 1;  // of the difference between a chain and kernels side by side
  std::map<plan::Decisions, std::vector<Call>> calls_;
  std::map<std::string, double> shares_;
};

// Meets the plans next to the rules' own: one value of one point each, then pairs of layouts that
// stand near each other, and all layouts at once. After it, costs.tasks() are what has to be
// measured before plans can be judged, the most promising first. Ends early when `stop` says so.
Result<void> visit_neighbours(PlanCosts& costs, const std::function<bool()>& stop);

}  // namespace tessera::app
