// Tensors written as text on a command line.
#pragma once

#include <string>

#include "tessera/frontend/graph/graph.h"

namespace tessera::onnx {

// How many numbers the text has: "0.5" and "true" are one, "[1,2,3]" and "1,2,3" three.
std::size_t count_numbers(const std::string& text);
// The shape that a text has by itself: none for one number without brackets.
Shape shape_of_text(const std::string& text);
// One number fills the tensor, otherwise there must be one per element, row by row.
Result<HostTensor> tensor_from_text(const std::string& text, const graph::TensorType& type);

}  // namespace tessera::onnx
