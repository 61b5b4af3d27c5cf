#include "tessera/codegen/llvm/index_range.h"

#include <algorithm>

#include "tessera/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::BinaryOp;

// Far from overflow in the products below.
constexpr std::int64_t kLimit = std::int64_t{1} << 30;

std::optional<Range> bounded(std::int64_t low, std::int64_t high) {
  constexpr std::int64_t kMost = kLimit * kLimit;
  if (low < -kMost || high > kMost) return std::nullopt;
  return Range{low, high};
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::optional<Range> product(const Range& a, const Range& b) {
  for (const std::int64_t v : {a.low, a.high, b.low, b.high}) {
    if (v < -kLimit || v > kLimit) return std::nullopt;
  }
  const auto [low, high] =
      std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return Range{low, high};
}

// Division and remainder by a positive constant; truncation only of what is not negative.
std::optional<Range> quotient(BinaryOp op, const Range& a, const Range& b) {
  if (b.low != b.high || b.low <= 0) return std::nullopt;
  const bool floors = op == BinaryOp::kFloorDiv || op == BinaryOp::kFloorMod;
  if (!floors && a.low < 0) return std::nullopt;
  if (op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv)
    return Range{floor_div(a.low, b.low), floor_div(a.high, b.low)};
  if (a.low >= 0 && a.high < b.low) return a;
  return Range{0, b.low - 1};
}

}  // namespace

std::optional<Range> range_of(const ir::Expr& e, const VarRanges& vars) {
  if (e.lanes() != 1) return std::nullopt;
  if (const auto c = ir::as_const_int(e)) return bounded(*c, *c);
  if (e.as<ir::Var>()) {
    const auto found = vars.find(e.get());
    return found == vars.end() ? std::nullopt : std::optional(found->second);
  }
  const auto* binary = e.as<ir::Binary>();
  if (!binary) return std::nullopt;
  const auto a = range_of(binary->a, vars);
  const auto b = a ? range_of(binary->b, vars) : std::nullopt;
  if (!b) return std::nullopt;
  switch (binary->op) {
    case BinaryOp::kAdd:
      return bounded(a->low + b->low, a->high + b->high);
    case BinaryOp::kSub:
      return bounded(a->low - b->high, a->high - b->low);
    case BinaryOp::kMul:
      return product(*a, *b);
    case BinaryOp::kDiv:
    case BinaryOp::kMod:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return quotient(binary->op, *a, *b);
    case BinaryOp::kMin:
      return Range{std::min(a->low, b->low), std::min(a->high, b->high)};
    case BinaryOp::kMax:
      return Range{std::max(a->low, b->low), std::max(a->high, b->high)};
    default:
      return std::nullopt;
  }
}

}  // namespace tessera::codegen
