// Products of f32 on tensor cores that take bf16: x = x0 + x1 + x2, three bf16 of eight bits each,
// exactly, and a b = a0 b2 + a0 b1 + a1 b0 + a1 b1 + a2 b0 + a0 b0, whose last term is by far the
// largest. What is left out is at most 2^-24 of the product, as much as one rounding of f32.
#pragma once

#include <array>
#include <string_view>

#include "tessera/lang/te/op_spec.h"
#include "tessera/lang/te/ops/window.h"
#include "tessera/support/host_tensor.h"

namespace tessera::te {

inline constexpr const char* kPartsAlgorithm = "bf16x6";  // a value of `algo` of matmul and dense

inline constexpr std::int64_t kFloatParts = 3;

// The parts that are multiplied, the largest product last.
struct PartTerm {
  std::int64_t left = 0, right = 0;
};
inline constexpr std::array kPartTerms = {PartTerm{0, 2}, PartTerm{2, 0}, PartTerm{1, 1},
                                          PartTerm{0, 1}, PartTerm{1, 0}, PartTerm{0, 0}};

// Stage `name`[part, dims..] of bf16 from x[dims..] of f32. Of an infinity the last part alone is
// infinite: its products are, unless the other factor is 0 or exceeds 256. Below 2^-109 the last
// bits are lost: bf16 ends at 2^-133.
ir::Buffer parts_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x);
// Stage `name`[dims..] of f32 from its parts.
ir::Buffer whole_stage(DagBuilder& b, const std::string& name, const ir::Buffer& parts);
// The parts of a tensor.
HostTensor float_parts(const HostTensor& x);
Shape parts_shape(const Shape& x);

// Stage `name`: as contract_stage of the f32 that lhs and rhs are the parts of.
Stage contract_parts_stage(DagBuilder& b, const std::string& name, const ir::Buffer& lhs,
                           std::string_view lhs_labels, const ir::Buffer& rhs,
                           std::string_view rhs_labels, std::string_view out_labels);

}  // namespace tessera::te
