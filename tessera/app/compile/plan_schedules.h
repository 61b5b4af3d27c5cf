// A plan as the source of a build's schedules.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/frontend/plan/plan.h"
#include "tessera/frontend/task/task.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::app {

// Give it to a build, then ask what the plan did not have. Copies share their state.
class PlanSchedules {
 public:
  // kInvalidArgument when the plan was made for another instruction set (target::mismatch), saying
  // what differs. `strict`: a task that the plan does not have is an error.
  static Result<PlanSchedules> make(plan::Plan plan, const target::Target& target, bool strict);

  // For exec::ModelOptions. A schedule that does not apply is kInvalidArgument and names the task.
  std::function<Result<schedule::Schedule>(const task::Task&)> schedules() const;

  const plan::Plan& plan() const;
  bool strict() const;
  // "KEY name" of the tasks that were asked for and are not in the plan, sorted.
  std::vector<std::string> missing() const;
  // How many of the tasks that were asked for are in the plan.
  std::size_t found() const;

 private:
  struct State;
  explicit PlanSchedules(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace tessera::app
