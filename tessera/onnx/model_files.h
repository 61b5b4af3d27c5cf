// A model file and the files beside it that hold its tensors.
#pragma once

#include <string>
#include <vector>

#include "tessera/onnx/model.h"

namespace tessera::onnx {

// As load_model; `beside`: the paths of the external data that were read, sorted.
Result<Model> load_model_files(const std::string& path, std::vector<std::string>* beside);

}  // namespace tessera::onnx
