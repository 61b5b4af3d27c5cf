// From a model to what is built: everything decided, by a plan where it has a say, then by a cost
// model, then by the rules.
#pragma once

#include <optional>
#include <string>

#include "tessera/app/compile/compile_options.h"
#include "tessera/app/compile/model_source.h"
#include "tessera/app/compile/zero_trials.h"
#include "tessera/backend/exec/compile_model.h"
#include "tessera/frontend/task/task.h"

namespace tessera::app {

// What exec::compile_model and artifact::compile_artifact take.
struct DecidedModel {
  graph::Graph graph;
  task::TaskGraph tasks;
  std::vector<plan::Decided> decided;
  exec::ModelOptions build;               // with the schedules
  std::optional<ZeroTrialResult> judged;  // nothing was left to judge, or nobody to judge it
};

// kDataDependent: StagedModel can run it. kInvalidArgument: a plan that does not fit the model. The
// source lets go of weights, which the passes replace.
Result<DecidedModel> decide_model(ModelSource& source, const CompileOptions& options);

// Its code, loaded by `device` (null: this process), and its weights as the kernels read them.
Result<exec::CompiledModel> compile_decided(const DecidedModel& model, const target::Target& target,
                                            runtime::Device* device);

}  // namespace tessera::app
