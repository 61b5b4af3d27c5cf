// Sums of products of two tensors by labels, as einsum writes them: matrix products and the like.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/lang/te/ops/window.h"

namespace tessera::te {

// The part of an operand that is read, by dimension; empty: all of it.
struct OperandPart {
  std::vector<std::int64_t> starts, sizes;
};

// Stage `name`: out = sum over the labels that `out_labels` lacks of lhs * rhs, accumulated in
// `acc`. One letter per dimension, none twice within an operand, every letter of the output in an
// operand, equal letters of equal extent. Axes are named by the letters; reduce axes in the order
// of lhs, then rhs.
Stage contract_stage(DagBuilder& b, const std::string& name, const ir::Buffer& lhs,
                     std::string_view lhs_labels, const ir::Buffer& rhs,
                     std::string_view rhs_labels, std::string_view out_labels, DType acc,
                     const OperandPart& lhs_part = {}, const OperandPart& rhs_part = {});

}  // namespace tessera::te
