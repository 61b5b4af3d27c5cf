// Convolutions as products of the matrix of their windows (te/ops/columns.h).
#pragma once

#include <optional>

#include "tessera/frontend/plan/convolution.h"

namespace tessera::plan {

// Whether a dense convolution of f16 or bf16 from `ci` channels, with windows of `elements`, is
// better computed so. Tensor cores add 16 products at a time: fewer channels cannot feed them, and
// what other units take for sums of 64 and more is worth gathering the windows first.
bool prefers_columns(std::int64_t ci, std::int64_t co, std::int64_t elements, const Rules& rules);

// The point of a convolution of f16 or bf16 with constant weights, of few channels or of much work
// with strides or small maps: kProduct or kDirect, keys
// "columns n1 h224 w224 ci3 co64 k7x7 s2,2". Nullopt: there is one way only.
std::optional<Point> columns_point(const Convolution& conv, const Rules& rules);

// The point of a convolution of bf16 or bytes with constant weights and fewer channels than an
// instruction of the processor wants, whose windows reach over several columns: kProduct (the
// channels of a row lie side by side and are summed together) or kDirect, keys
// "rows n1 h224 w224 ci3 co64 k7x7 s2,2". Nullopt: there is one way only.
std::optional<Point> rows_point(const Convolution& conv, DType image, const Rules& rules);
// Elements of an image that such an instruction adds up; 0: there is none for the type.
std::int64_t row_group(DType image);

// The point of a transposed convolution of so few positions that reading the weights decides:
// kProduct (all positions are rows of one product) or kDirect, keys
// "columns_transpose n1 h4 w4 ci512 co256 k4x4 s2,2". Nullopt: it has more.
std::optional<Point> transposed_columns_point(const Convolution& conv, const Rules& rules);

}  // namespace tessera::plan
