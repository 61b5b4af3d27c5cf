// A model by the name that a user gives it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/backend/exec/prepared_model.h"
#include "tessera/frontend/onnx/model.h"

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

// Of the content of a file, or of those of a language model's folder. Empty: it cannot be read.
std::string file_digest(const std::string& path);

}  // namespace tessera::app
