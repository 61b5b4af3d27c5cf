// Matrix products of values: what MatMul, Gemm, Einsum, recurrent layers and attention are made of.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/onnx/ops/op.h"

namespace tessera::onnx {

// out = sum of products of x and y by labels (see the graph operator contract).
Result<ValueId> contract(graph::GraphBuilder& b, ValueId x, const std::string& x_labels, ValueId y,
                         const std::string& y_labels, const std::string& out_labels);

// NumPy's matmul: 1-D operands gain and lose an axis, batch dimensions broadcast.
Result<ValueId> matmul(graph::GraphBuilder& b, ValueId x, ValueId y);

// x with dimension `axis`, of size 1, removed.
Result<ValueId> drop_axis(graph::GraphBuilder& b, ValueId x, std::size_t axis);

// Sum, mean or max over `axes`, which stay as 1 or go.
Result<ValueId> reduce_axes(graph::GraphBuilder& b, const char* kind, ValueId x,
                            const std::vector<std::int64_t>& axes, bool keep);

std::vector<OnnxOp> einsum_rows();
std::vector<OnnxOp> integer_matmul_rows();
std::vector<OnnxOp> integer_conv_rows();

}  // namespace tessera::onnx
