#include "tessera/app/compile/plan_schedules.h"

#include <mutex>
#include <set>

#include "tessera/machine/target/match.h"
#include "tessera/scheduling/space/default_schedule.h"

namespace tessera::app {

struct PlanSchedules::State {
  Result<schedule::Schedule> schedule(const task::Task& task);

  plan::Plan plan;
  target::Target target;
  bool strict = false;
  std::mutex mutex;  // tasks are built by several threads
  std::set<std::string> missing, found;
};

Result<schedule::Schedule> PlanSchedules::State::schedule(const task::Task& task) {
  const plan::PlanEntry* entry = plan.find(task.key);
  if (entry == nullptr) {
    {
      const std::lock_guard lock(mutex);
      missing.insert(task.key + " " + task.name);
    }
    if (!strict) return space::default_schedule(task.dag, target);
    return make_error(ErrorCode::kInvalidArgument, "{} is not in the plan", task.key);
  }
  {
    const std::lock_guard lock(mutex);
    found.insert(task.key);
  }
  Result<schedule::Schedule> steps = schedule::schedule_from_text(entry->schedule);
  Result<void> applies;
  if (!steps.ok()) {
    applies = steps.error();
  } else if (const auto state = schedule::apply(task.dag, *steps); !state.ok()) {
    applies = state.error();
  }
  if (applies.ok()) return steps;
  return make_error(ErrorCode::kInvalidArgument,
                    "the schedule that the plan has for {} does not apply: {}", task.key,
                    applies.error().message);
}

Result<PlanSchedules> PlanSchedules::make(plan::Plan plan, const target::Target& target,
                                          bool strict) {
  const Result<target::Target> made_for = target::target_from_text(plan.target);
  if (!made_for.ok()) return made_for.error().with_context("the plan cannot be used here");
  if (const std::string reason = target::mismatch(*made_for, target); !reason.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "the plan cannot be used here: {}", reason);
  }
  auto state = std::make_shared<State>();
  state->plan = std::move(plan);
  state->target = target;
  state->strict = strict;
  return PlanSchedules(std::move(state));
}

std::function<Result<schedule::Schedule>(const task::Task&)> PlanSchedules::schedules() const {
  return [state = state_](const task::Task& task) { return state->schedule(task); };
}

const plan::Plan& PlanSchedules::plan() const { return state_->plan; }

bool PlanSchedules::strict() const { return state_->strict; }

std::vector<std::string> PlanSchedules::missing() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->missing.begin(), state_->missing.end()};
}

std::size_t PlanSchedules::found() const {
  const std::lock_guard lock(state_->mutex);
  return state_->found.size();
}

}  // namespace tessera::app
