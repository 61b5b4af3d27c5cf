// The one way from a model to what is built: everything decided, by a plan where it has a say, then
// by a cost model, then by the rules.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/plan_schedules.h"
#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/compile/zero_trials.h"
#include "tessera/backend/exec/compile_model.h"
#include "tessera/frontend/task/task.h"

namespace tessera::app {

struct CompileOptions {
  LoadOptions load;
  exec::ModelOptions build;
  target::Target target = target::host();  // of the code
  std::optional<PlanSchedules> plan;
  // Judges schedules that the plan lacks, nothing measured: files, kShipped or kNoModel. A shipped
  // one that cannot be read is noted and left out.
  std::string cost_model = kNoModel;
  // Proposes schedules to the cost model: a file, kShipped (where one ships) or kNoModel.
  std::string language = kNoModel;
  std::function<void(const std::string&)> note;  // one line for people
  // Asked once the graph is known, before schedules are judged: an error ends it there.
  std::function<Result<void>(const graph::Graph&)> accept;
};

// What exec::compile_model and artifact::compile_artifact take.
struct DecidedModel {
  graph::Graph graph;
  task::TaskGraph tasks;
  std::vector<plan::Decided> decided;
  exec::ModelOptions build;               // with the schedules
  std::optional<ZeroTrialResult> judged;  // nothing was left to judge, or nobody to judge it
};

// kDataDependent: run_split can run it. kInvalidArgument: a plan that does not fit the model.
// Who gives the model away need not hold weights that are replaced.
Result<DecidedModel> decide_model(onnx::Model model, const CompileOptions& options);

}  // namespace tessera::app
