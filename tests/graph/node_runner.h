// Runs one graph operator in each of the ways it has.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/frontend/graph/op.h"
#include "tessera/lang/interp/interp.h"
#include "tests/testing/tensors.h"
#include "tests/testing/testing.h"

namespace tessera::graph::testing {

using Tensors = std::vector<HostTensor>;

inline std::vector<const HostTensor*> pointers(const Tensors& inputs) {
  std::vector<const HostTensor*> list;
  for (const HostTensor& t : inputs) list.push_back(&t);
  return list;
}

// By `evaluate` where the operator has it.
inline Result<Tensors> run_node(const std::string& op, const Attrs& attrs, const Tensors& inputs) {
  return evaluate_node(*find_op(op), attrs, pointers(inputs));
}

// By interpreting `define`, with the inputs known as constants or not.
inline Result<Tensors> run_definition(const std::string& op, const Attrs& attrs,
                                      const Tensors& inputs, bool constant) {
  std::vector<TensorType> types;
  for (const HostTensor& t : inputs) types.push_back({t.dtype(), t.shape()});
  NodeView node{attrs, {}, {}};
  te::DagBuilder b(op);
  std::vector<ir::Buffer> buffers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.types.push_back(&types[i]);
    node.constants.push_back(constant ? &inputs[i] : nullptr);
    buffers.push_back(b.input("in" + std::to_string(i), types[i].dtype, types[i].shape));
  }
  TESSERA_TRY(const std::vector<ir::Buffer> outputs, find_op(op)->define(b, op, node, buffers));
  return interp::run(b.build(outputs), inputs);
}

// `evaluate` and both ways of `define` agree exactly; returns the result.
inline Tensors expect_agreement(const std::string& op, const Attrs& attrs, const Tensors& inputs,
                                double tolerance = 0) {
  const auto direct = run_node(op, attrs, inputs);
  EXPECT_TRUE(direct.ok()) << op << ": " << direct.error().message;
  if (!direct.ok()) return {};
  for (const bool constant : {false, true}) {
    const auto defined = run_definition(op, attrs, inputs, constant);
    EXPECT_TRUE(defined.ok()) << op << ": " << defined.error().message;
    if (!defined.ok()) return {};
    for (std::size_t i = 0; i < direct->size(); ++i) {
      EXPECT_EQ(tessera::testing::mismatch((*defined)[i], (*direct)[i], tolerance), "")
          << op << " {" << to_text(attrs) << "} of " << tessera::to_text(inputs[0].shape());
    }
  }
  return *direct;
}

// The reason why the operator refuses its inputs; "" when it accepts them.
inline std::string refusal(const std::string& op, const Attrs& attrs, const Tensors& inputs) {
  std::vector<TensorType> types;
  for (const HostTensor& t : inputs) types.push_back({t.dtype(), t.shape()});
  NodeView node{attrs, {}, {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.types.push_back(&types[i]);
    node.constants.push_back(&inputs[i]);
  }
  const auto result = find_op(op)->infer(node);
  return result.ok() ? "" : result.error().message;
}

inline HostTensor ints(const Shape& shape, const std::vector<std::int64_t>& values,
                       DType dtype = DType::kI64) {
  HostTensor t(dtype, shape);
  for (std::size_t i = 0; i < values.size(); ++i)
    t.set_int(static_cast<std::int64_t>(i), values[i]);
  return t;
}

inline HostTensor floats(const Shape& shape, const std::vector<double>& values,
                         DType dtype = DType::kF32) {
  return tessera::testing::tensor(dtype, shape, values);
}

using tessera::testing::counting;
using tessera::testing::values_of;

}  // namespace tessera::graph::testing
