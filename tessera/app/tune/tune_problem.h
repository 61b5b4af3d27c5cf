// What a tuning works on: the distinct tasks of one or several models or operations, and the
// points of its plan that choose between sets of tasks which compute the same.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/compile/load_graph.h"
#include "tessera/frontend/graph/graph.h"
#include "tessera/frontend/plan/plan.h"
#include "tessera/frontend/task/task.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {

// A model, or a single operation.
struct TuneSubject {
  std::string name;  // path, zoo:NAME or the canonical spec
  bool is_op = false;
  CompileOptions compile;  // of a model; of an operation the target alone
};

struct TuneTask {
  task::Task task;        // `weight` is not used: see TaskUse
  std::string algorithm;  // of the point it belongs to; empty: there is none
};

// A subject runs a task `count` times.
struct TaskUse {
  std::size_t task = 0, subject = 0;
  int count = 0;
};

// A point of the plan (or a family of them, or an operation) whose values tuning measures.
struct TunePoint {
  decide::Point point;                     // named by its key of plan::Decisions
  std::vector<std::vector<TaskUse>> uses;  // by value: the tasks that compute it

  const std::vector<TaskUse>& of(std::int32_t value) const {
    return uses[static_cast<std::size_t>(value)];
  }
  const std::vector<TaskUse>& preferred() const { return of(point.preferred); }
  std::int32_t values() const { return static_cast<std::int32_t>(uses.size()); }
};

struct TuneProblem {
  std::vector<TuneSubject> subjects;
  std::vector<graph::Graph> imported;  // by subject, before any pass; empty for operations
  std::vector<TuneTask> tasks;
  std::vector<TaskUse> base;    // whatever is chosen
  std::vector<TaskUse> others;  // measured as well: of plans that are not what is tuned
  std::vector<TunePoint> points;
  std::vector<std::string> left_out;  // values of points that there was no time to look at
};

// Models that run node by node are refused (kUnsupported). Tasks of equal key are one. `late` is
// asked before each value that the rules do not decide for: it and those behind it are left out.
Result<TuneProblem> make_tune_problem(const std::vector<TuneSubject>& subjects,
                                      const task::PartitionOptions& partition,
                                      const std::function<bool()>& late = {});

// The operation of a text. A convolution that names no algorithm gets the one that a model takes
// without tuning by these rules (passes_for).
Result<te::OpSpec> parse_op(const std::string& text, const plan::Rules& rules);

// The name of an operation's point: its canonical text with algo=direct, whatever it was.
std::string op_key(const te::OpSpec& spec);

// An operation with the algorithm and the schedule that a plan has for it; without a schedule when
// the plan has none.
struct PlannedOp {
  te::OpSpec spec;
  std::string key;
  std::optional<std::string> schedule;
};
Result<PlannedOp> planned_op(const te::OpSpec& spec, const plan::Plan& plan);

}  // namespace tessera::app
