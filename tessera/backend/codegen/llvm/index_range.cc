#include "tessera/backend/codegen/llvm/index_range.h"

#include <algorithm>

#include "tessera/lang/ir/build.h"

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

struct Bounds {
  std::optional<std::int64_t> low, high;
};

std::optional<Range> both(const Bounds& b) {
  return b.low && b.high ? std::optional(Range{*b.low, *b.high}) : std::nullopt;
}

Bounds either(const std::optional<Range>& r) { return r ? Bounds{r->low, r->high} : Bounds{}; }

// One side is enough to bound min from above and max from below.
Bounds extremum(BinaryOp op, const Bounds& a, const Bounds& b) {
  using Bound = std::optional<std::int64_t>;
  const auto pick = [&](Bound x, Bound y) {
    return op == BinaryOp::kMin ? std::min(*x, *y) : std::max(*x, *y);
  };
  const auto all = [&](Bound x, Bound y) { return x && y ? Bound(pick(x, y)) : std::nullopt; };
  const auto any = [&](Bound x, Bound y) { return x && y ? Bound(pick(x, y)) : x ? x : y; };
  if (op == BinaryOp::kMin) return {all(a.low, b.low), any(a.high, b.high)};
  return {any(a.low, b.low), all(a.high, b.high)};
}

Bounds bounds_of(const ir::Expr& e, const VarRanges& vars) {
  if (const auto c = ir::as_const_int(e)) return either(bounded(*c, *c));
  if (e.as<ir::Var>()) {
    const auto found = vars.find(e.get());
    return found == vars.end() ? Bounds{} : Bounds{found->second.low, found->second.high};
  }
  if (const auto* copy = e.as<ir::Broadcast>()) return bounds_of(copy->value, vars);
  if (const auto* ramp = e.as<ir::Ramp>()) {
    const auto base = both(bounds_of(ramp->base, vars));
    const auto steps = product({0, ramp->type.lanes - 1}, {ramp->stride, ramp->stride});
    if (!base || !steps) return {};
    return either(bounded(base->low + steps->low, base->high + steps->high));
  }
  const auto* binary = e.as<ir::Binary>();
  if (!binary || ir::is_comparison(binary->op)) return {};
  const Bounds x = bounds_of(binary->a, vars), y = bounds_of(binary->b, vars);
  if (binary->op == BinaryOp::kMin || binary->op == BinaryOp::kMax)
    return extremum(binary->op, x, y);
  const auto a = both(x), b = both(y);
  if (!a || !b) return {};
  switch (binary->op) {
    case BinaryOp::kAdd:
      return either(bounded(a->low + b->low, a->high + b->high));
    case BinaryOp::kSub:
      return either(bounded(a->low - b->high, a->high - b->low));
    case BinaryOp::kMul:
      return either(product(*a, *b));
    case BinaryOp::kDiv:
    case BinaryOp::kMod:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return either(quotient(binary->op, *a, *b));
    default:
      return {};
  }
}

}  // namespace

std::optional<Range> range_of(const ir::Expr& e, const VarRanges& vars) {
  return both(bounds_of(e, vars));
}

std::optional<Range> range_of(const ir::Load& load, const VarRanges& vars) {
  auto sum = bounded(0, 0);
  const auto add = [&](const std::optional<Range>& part, std::int64_t scale) {
    const auto scaled = part ? product(*part, {scale, scale}) : std::nullopt;
    sum = sum && scaled ? bounded(sum->low + scaled->low, sum->high + scaled->high) : std::nullopt;
  };
  if (const auto place = place_of(load.buffer, load.indices)) {
    add(Range{0, load.type.lanes - 1}, place->stride);
    add(bounded(place->base.constant, place->base.constant), 1);
    for (const Linear::Term& term : place->base.terms) add(range_of(term.factor, vars), term.coef);
    return sum;
  }
  const std::vector<std::int64_t> strides = row_major_strides(load.buffer);
  for (std::size_t d = 0; d < strides.size(); ++d) add(range_of(load.indices[d], vars), strides[d]);
  return sum;
}

}  // namespace tessera::codegen
