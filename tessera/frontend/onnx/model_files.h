// A model file and the files beside it that hold its tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/frontend/onnx/model.h"

namespace tessera::onnx {

// As load_model; `beside`: the paths of the external data that were read, sorted.
Result<Model> load_model_files(const std::string& path, std::vector<std::string>* beside);

// Weights are larger than this, what decides about shapes is smaller.
inline constexpr std::size_t kOutlineBytes = std::size_t{64} << 10;
// As load_model, without touching weights: initializers of the outermost graph, and Constants in
// it, of more than kOutlineBytes have their types and shapes, but their values must not be read.
// Those of narrow types have no elements.
Result<Model> load_outline(const std::string& path);
// The model with these tensors as inputs, whose values nobody knows. What is supported so, is
// supported with any weights. Nothing when the model has no such tensor.
std::optional<Model> with_open_weights(const Model& outline);

// Whether the value of a node is a tensor of the file.
bool is_constant(const Node& node);

}  // namespace tessera::onnx
