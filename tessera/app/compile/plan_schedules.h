// A plan as the source of a build's schedules.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/app/compile/load_graph.h"
#include "tessera/backend/exec/compile_model.h"
#include "tessera/frontend/plan/plan.h"

namespace tessera::app {

// Give both hooks to a build, then ask what the plan did not have. Copies share their state.
class PlanSchedules {
 public:
  // kInvalidArgument when the plan was made for another instruction set (target::mismatch), saying
  // what differs. `strict`: a task that the plan does not have is an error.
  static Result<PlanSchedules> make(plan::Plan plan, const target::Target& target, bool strict);

  // The decisions of the plan: tasks follow from them.
  void apply_to(LoadOptions* options) const;
  // Those about fusion and the schedules. A schedule that does not apply is kInvalidArgument and
  // names the task.
  void apply_to(exec::ModelOptions* options) const;

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
