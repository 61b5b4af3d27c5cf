// Runs one operator of the graph on small tensors, for the tests of operators.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/graph/op.h"
#include "tests/testing/tensors.h"

namespace tessera::graph {

using tessera::testing::tensor;
using tessera::testing::values_of;

// The only output.
inline Result<HostTensor> run_op(const std::string& op, const std::vector<HostTensor>& inputs,
                                 const Attrs& attrs = {}) {
  std::vector<const HostTensor*> pointers;
  for (const HostTensor& input : inputs) pointers.push_back(&input);
  auto outputs = evaluate_node(*find_op(op), attrs, pointers);
  if (!outputs.ok()) return outputs.error();
  return outputs->at(0);
}

// The message of the error that the operator must give.
inline std::string refusal(const std::string& op, const std::vector<HostTensor>& inputs,
                           const Attrs& attrs = {}) {
  const auto result = run_op(op, inputs, attrs);
  return result.ok() ? "no error" : result.error().message;
}

}  // namespace tessera::graph
