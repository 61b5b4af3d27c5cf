// A model as a file that another engine can open.
#pragma once

#include <optional>
#include <string>

#include "tessera/frontend/onnx/model.h"
#include "tessera/support/model_name.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::app {

// Of built-in networks it is temporary.
class ModelFile {
 public:
  Result<std::string> path(const std::string& spec, const onnx::Model& model) {
    if (!is_built_in(spec)) return spec;
    if (!temporary_) {
      TESSERA_TRY(TemporaryFolder made, TemporaryFolder::make("model"));
      TESSERA_DO(onnx::save_model(model, made.path() + "/model.onnx"));
      temporary_ = std::move(made);
    }
    return temporary_->path() + "/model.onnx";
  }

 private:
  std::optional<TemporaryFolder> temporary_;
};

}  // namespace tessera::app
