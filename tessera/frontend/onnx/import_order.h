// The order in which the nodes of a graph, a body or a function are imported.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/onnx/model.h"

namespace tessera::onnx {

struct ImportOrder {
  std::vector<const Node*>
      nodes;  // those that an output needs, producers first, else as in the file
  // What the format forbids and other engines accept all the same: nodes that are not sorted,
  // constants defined more than once.
  std::vector<std::string> warnings;
};

// Names that nobody defines are left to the surrounding scope. Initializers and Constants may
// repeat a name: the last one counts, Constants after initializers. kInvalidArgument: another name
// is defined twice, or a cycle; both name a node.
Result<ImportOrder> import_order(const Graph& graph);
Result<ImportOrder> import_order(const Function& function);

// "node 'conv1' (Conv, output 'y')"
std::string describe(const Node& node);

}  // namespace tessera::onnx
