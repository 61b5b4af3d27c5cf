// What the attributes of a Loop or a Scan say, and how its inputs and outputs are cut into steps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/frontend/onnx/model.h"

namespace tessera::app {

// A Loop, or a Scan of opset 9 and later. Operands of the body: for a Loop a counter and a
// condition, then `carried` values, then a slab of each scanned input; results: for a Loop a
// condition, then the carried values, then one part of each stacked output.
struct LoopNode {
  const onnx::Graph* body = nullptr;  // lives as long as the node
  bool counts = false;                // a Loop
  std::size_t first = 0;              // input of the node that is carried first
  std::size_t carried = 0;
  struct Scanned {
    std::int64_t axis = 0;
    bool reverse = false;
  };
  std::vector<Scanned> scanned, stacked;

  // Of the body; what it reads of the scope around it comes behind.
  std::size_t operands() const { return (counts ? 2 : 0) + carried + scanned.size(); }
};

// Empty: another operator, or a node that is not well-formed, which import explains.
std::optional<LoopNode> read_loop_node(const onnx::Node& node, std::int64_t opset);

// A counter or condition as the body declares operand `at`: rank 0, or one element of rank 1.
HostTensor body_scalar(const onnx::Graph& body, std::size_t at, DType dtype, std::int64_t value);

// What a step reads of a scanned input; the axis must be one of the tensor's.
HostTensor slab_of(const HostTensor& whole, const LoopNode::Scanned& how, std::int64_t step);

// All parts along a new axis; empty when they do not fit together. There must be one.
std::optional<HostTensor> stacked(const std::vector<HostTensor>& parts,
                                  const LoopNode::Scanned& how);

}  // namespace tessera::app
