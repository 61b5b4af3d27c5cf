// Small ONNX files for the tests of the commands that take a model.
#pragma once

#include <string>
#include <vector>

#include "tessera/support/named_tensor.h"
#include "tests/onnx/model_builder.h"

namespace tessera::cli {

// A file in the test's own folder; returns its path.
std::string save(const std::string& name, const onnx::Model& model);
std::string save_arrays(const std::string& name, const NamedTensors& arrays);
NamedTensors load_arrays(const std::string& path);

// f32[sizes]; a size that is not a number is a symbol.
onnx::ValueInfo floats(const std::string& name, const std::vector<std::string>& sizes);

// y = Relu(x), x: f32[N,C,4].
onnx::Model symbolic_model();
// y = x * w + b with w = [[1,2],[3,4],[5,6]], b = [10,20], x: f32[2,3].
onnx::Model linear_model();
// x -> Relu -> Mystery, which no opset has; the node is called "riddle".
onnx::Model unsupported_model();
// y = indices of the elements of x: f32[2,2] that are not zero.
onnx::Model nonzero_model();

}  // namespace tessera::cli
