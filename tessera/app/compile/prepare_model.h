// A model for this process in one step: found among those that earlier runs prepared, or made.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/plan_schedules.h"
#include "tessera/backend/exec/prepared_model.h"

namespace tessera::app {

// What a user names (load_onnx), read when it is first asked for; or a model that was read, which
// has no name and is never kept.
class ModelSource {
 public:
  explicit ModelSource(std::string spec) : spec_(std::move(spec)) {}
  explicit ModelSource(Result<onnx::Model> model) : model_(std::move(model)) {}

  const std::string& spec() const { return spec_; }  // empty: it was read already
  Result<const onnx::Model*> model();
  // Lets go of the weights, unless the model was given; it is read again if it is asked for.
  void forget();
  // The content of the file when this was first asked; of a built-in network, its name. Empty: it
  // has no name, or cannot be read.
  const std::string& identity();
  bool changed() const;  // since then
  // Files that model() read beside it. Nothing when one can no longer be read.
  std::optional<std::vector<exec::PreparedModel::Source>> sources() const;

 private:
  std::string spec_;
  std::optional<std::string> identity_;
  std::optional<Result<onnx::Model>> model_;
  std::vector<std::string> beside_;
};

struct PrepareOptions {
  LoadOptions load;
  exec::ModelOptions build;
  std::optional<PlanSchedules> plan;
  target::Target target;  // of the code; for this process
  // One line for people: that the next start will not find the model.
  std::function<void(const std::string&)> note;
};

// The cache is build.cache. A model is found by the content of its files, the build of Tessera, the
// machine and everything in the options that the code follows from; warnings of its import are
// told again. Errors are those of load_onnx, load_graph and exec::compile_model.
Result<exec::PreparedModel> prepare_model(ModelSource& source, const PrepareOptions& options);

}  // namespace tessera::app
