// What operators that move data share: axes, index expressions, copies of host tensors.
#pragma once

#include <utility>
#include <vector>

#include "tessera/frontend/graph/op.h"

namespace tessera::graph {

// The single output type of an operator; kInvalidArgument when the shape is too large.
Result<std::vector<TensorType>> single_type(DType dtype, Shape shape);

template <class... Args>
Error bad_operand(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

// Elements of a row-major tensor between neighbours along each axis.
Shape row_major_strides(const Shape& shape);
// Product of the dimensions [first, last).
std::int64_t span_size(const Shape& shape, std::size_t first, std::size_t last);

// Indices into `from` of the element that a reshape to `to` puts at `i`; neither shape is empty.
te::Indices reshape_indices(const Shape& from, const Shape& to, const te::Indices& i);

// The position that index tensor `input` of `node` names along a dimension of n > 0 elements:
// negative ones count from the end, others are brought into [0, n). `raw` reads the tensor; only
// what its type (and its values, when constant) leave open costs instructions.
ir::Expr safe_index(const NodeView& node, std::size_t input, const ir::Expr& raw, std::int64_t n);
// The same on a value.
std::int64_t safe_index(std::int64_t raw, std::int64_t n);
// kInvalidArgument: input `input` is constant and names a position outside [-n, n).
Result<void> check_indices(const NodeView& node, std::size_t input, std::int64_t n);

struct StridedDim {
  std::int64_t size;
  std::int64_t src, dst;  // strides in elements; src may be zero or negative
};
// dst[sum of d*dst] = src[sum of d*src] over all points d of `dims`.
void copy_strided(const void* src, void* dst, const std::vector<StridedDim>& dims,
                  int element_bytes);

// Slices `indices` (each within the dimension) of x along `axis`, in order.
HostTensor take(const HostTensor& x, std::size_t axis, const std::vector<std::int64_t>& indices);

}  // namespace tessera::graph
