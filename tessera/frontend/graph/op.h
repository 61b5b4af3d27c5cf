// What an operator of the graph is: type inference, meaning, and how it may be fused. The table is
// graph/ops/op_table.cc; one row and one file (or one row of a family's table) per operator.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/frontend/graph/graph.h"
#include "tessera/lang/te/builder.h"

namespace tessera::graph {

// How an operator combines with its neighbours in one kernel, easiest first.
enum class Fusion : std::uint8_t {
  kPointwise,    // out[i] depends on in[i] (or broadcast in) only
  kInjective,    // each output element reads one element of each input: transpose, slice, pad, ...
  kReduction,    // reduces some axes, maybe in several steps: reduce, softmax, layernorm
  kContraction,  // the heavy ones: matmul, conv; takes pointwise epilogues
  kWindow,       // pools, resize: not worth an anchor, takes pointwise epilogues
  kAlias,        // output is the input's memory under another shape: reshape
  kHost,         // no tensor expression: runs as a function of the host (topk, nonzero, ...)
};

// A node as inference and definition see it.
struct NodeView {
  const Attrs& attrs;
  std::vector<const TensorType*> types;      // of the inputs; null where omitted
  std::vector<const HostTensor*> constants;  // null where not constant (or omitted)

  std::size_t size() const { return types.size(); }
  bool has(std::size_t i) const { return i < types.size() && types[i] != nullptr; }
  const Shape& shape(std::size_t i) const { return types[i]->shape; }
  DType dtype(std::size_t i) const { return types[i]->dtype; }
};

// What passes need to know of an operator, apart from how it fuses: bits of OpDef::facts.
namespace fact {
enum Fact : std::uint32_t {
  kKeepsAxes = 1 << 0,    // all data have the same axes and may be permuted together
  kJoins = 1 << 1,        // every operand is data; of other operators only the first is
  kImages = 1 << 2,       // "layout" says which axis of the data holds channels
  kConvolves = 1 << 3,    // linear in images and in weights, operand 1
  kTransposed = 1 << 4,   // ... and spreads every element over its window
  kSamples = 1 << 5,      // reads images at positions of its own
  kContracts = 1 << 6,    // linear in both operands, whose axes have labels
  kPermutes = 1 << 7,     // moves axes, as "perm" says
  kReshapes = 1 << 8,     // the same elements in the same order
  kReduces = 1 << 9,      // one axis ("axis") or several ("axes"), which "keepdims" may keep
  kNormalizes = 1 << 10,  // over the axes from "axis" on
  kAxis = 1 << 11,        // "axis" is an axis of the data
  kAxes = 1 << 12,        // "axes" are
  kPerAxis = 1 << 13,     // lists have a number for each axis
  kIndexes = 1 << 14,     // operand 1 holds indices into "axis" of operand 0
  kUnpacks = 1 << 15,     // of constants: not folded before their storage is chosen
};
}  // namespace fact

struct OpDef {
  const char* name;  // "conv"
  Fusion fusion;
  // Types of the outputs. kInvalidArgument: shapes or types do not fit, with the reason.
  // kDataDependent: a size depends on an input that is not constant.
  Result<std::vector<TensorType>> (*infer)(const NodeView& node);
  // Appends stages that compute the outputs from `inputs` (null Buffer where omitted) and returns
  // the output buffers. `name` prefixes stage names (one stage: exactly `name`; more:
  // "name.pad", ..., the last one `name`). Null for kHost. Called only when inference succeeded
  // and no output is empty.
  Result<std::vector<ir::Buffer>> (*define)(te::DagBuilder& b, const std::string& name,
                                            const NodeView& node,
                                            const std::vector<ir::Buffer>& inputs) = nullptr;
  // The same on tensors: the meaning of kHost operators; a shortcut for others (big data movement)
  // that must equal `define`. Null: evaluate_node interprets `define`.
  Result<std::vector<HostTensor>> (*evaluate)(
      const NodeView& node, const std::vector<const HostTensor*>& inputs) = nullptr;
  std::uint32_t facts = 0;

  bool is(std::uint32_t any) const { return (facts & any) != 0; }
};

// The row with facts.
inline OpDef with(std::uint32_t facts, OpDef op) {
  op.facts |= facts;
  return op;
}

// Null when there is none.
const OpDef* find_op(std::string_view name);
const std::vector<OpDef>& op_table();  // sorted by name

NodeView view(const Graph& graph, const Node& node);

// Runs one operator on tensors: `evaluate`, or `define` by the interpreter. The oracle for nodes.
Result<std::vector<HostTensor>> evaluate_node(const OpDef& op, const Attrs& attrs,
                                              const std::vector<const HostTensor*>& inputs);

// Runs a whole graph node by node with evaluate_node: the oracle for passes and compiled models.
Result<std::vector<HostTensor>> evaluate(const Graph& graph, const std::vector<HostTensor>& inputs);

}  // namespace tessera::graph
