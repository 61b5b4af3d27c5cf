// Bounds of scalar index expressions, so that they can be computed in 32 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "tessera/ir/expr.h"

namespace tessera::codegen {

struct Range {
  std::int64_t low = 0, high = 0;  // both are taken
};
using VarRanges = std::unordered_map<const ir::ExprNode*, Range>;

// Nothing when a part is no arithmetic of known variables, or too large to tell.
std::optional<Range> range_of(const ir::Expr& e, const VarRanges& vars);

inline bool fits_32_bits(const std::optional<Range>& r) {
  return r && r->low >= INT32_MIN && r->high <= INT32_MAX;
}

}  // namespace tessera::codegen
