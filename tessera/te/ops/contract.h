// Sums of products of two tensors by labels, as einsum writes them: matrix products and the like.
#pragma once

#include <string_view>

#include "tessera/te/ops/window.h"

namespace tessera::te {

// Stage `name`: out = sum over the labels that `out_labels` lacks of lhs * rhs, accumulated in
// `acc`. One letter per dimension, none twice within an operand, every letter of the output in an
// operand, equal letters of equal extent. Axes are named by the letters; reduce axes in the order
// of lhs, then rhs.
Stage contract_stage(DagBuilder& b, const std::string& name, const ir::Buffer& lhs,
                     std::string_view lhs_labels, const ir::Buffer& rhs,
                     std::string_view rhs_labels, std::string_view out_labels, DType acc);

}  // namespace tessera::te
