// The order in which the nodes of a graph, a body or a function are imported.
#pragma once

#include <string>
#include <vector>

#include "tessera/onnx/model.h"

namespace tessera::onnx {

struct Plan {
  std::vector<const Node*>
      order;  // those that an output needs, producers first, else as in the file
};

// `given`: names defined before any node runs (inputs and initializers). Names that nobody defines
// are left to the surrounding scope. kInvalidArgument: a name is defined twice, or a cycle; both
// name a node.
Result<Plan> make_plan(const std::vector<Node>& nodes, const std::vector<std::string>& given,
                       const std::vector<std::string>& outputs);
Result<Plan> make_plan(const Graph& graph);
Result<Plan> make_plan(const Function& function);

// "node 'conv1' (Conv, output 'y')"
std::string describe(const Node& node);

}  // namespace tessera::onnx
