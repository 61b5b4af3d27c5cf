// Bounds of index expressions: those that fit are computed in 32 bits, and a load that lies in its
// buffer for certain may be made early.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "tessera/backend/codegen/llvm/index.h"
#include "tessera/lang/ir/expr.h"

namespace tessera::codegen {

struct Range {
  std::int64_t low = 0, high = 0;  // both are taken
};
using VarRanges = std::unordered_map<const ir::ExprNode*, Range>;

// Of all lanes. Nothing when a part is not arithmetic of known variables, or too large to tell.
std::optional<Range> range_of(const ir::Expr& e, const VarRanges& vars);
// Of the places in the buffer that a load reads, in elements.
std::optional<Range> range_of(const ir::Load& load, const VarRanges& vars);

inline bool fits_32_bits(const std::optional<Range>& r) {
  return r && r->low >= INT32_MIN && r->high <= INT32_MAX;
}

}  // namespace tessera::codegen
