// Parts of tensors: what Slice, Split, Pad, Gather and Resize are made of.
#pragma once

#include <vector>

#include "tessera/frontend/onnx/ops/op.h"

namespace tessera::onnx {

// One axis of a slice: x[start], x[start + step], ..., `size` elements, all of them inside.
struct AxisSlice {
  std::int64_t start, step, size;
};

// x with each axis cut as `parts` says (one per axis); x itself when nothing is cut.
Result<ValueId> slice(graph::GraphBuilder& b, ValueId x, const std::vector<AxisSlice>& parts);
// All of x, to be cut along some axes.
std::vector<AxisSlice> whole(const Shape& x);

// x grown by before[d] and after[d] elements along axis d, or cut where they are negative; `value`
// (kNoValue: zero) is for mode constant only.
Result<ValueId> pad(graph::GraphBuilder& b, ValueId x, const std::string& mode,
                    const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after,
                    ValueId value = kNoValue);

// Slices of x along `axis` at constant positions in [-n, n); the new axes are those of `indices`.
// Positions in arithmetic progression become a slice.
Result<ValueId> gather(graph::GraphBuilder& b, ValueId x, std::int64_t axis, ValueId indices);

std::vector<OnnxOp> slicing_rows();

}  // namespace tessera::onnx
