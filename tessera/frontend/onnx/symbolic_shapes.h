// What the nodes of a model say about the sizes of its symbolic dimensions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/onnx/model.h"
#include "tessera/frontend/onnx/size_expr.h"

namespace tessera::onnx {

using SymbolicShape = std::vector<Size>;

// Walks the nodes of the graph in order with the shapes of its inputs, and collects what must be
// equal: channels of a convolution and of its weights, elements before and after a reshape, both
// sides of an addition. Nodes that it does not know (and bodies and functions) say nothing.
std::vector<Equation> collect_equations(const Graph& graph,
                                        const std::map<std::string, SymbolicShape>& inputs);

}  // namespace tessera::onnx
