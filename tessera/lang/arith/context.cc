#include "tessera/lang/arith/context.h"

#include <algorithm>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::arith {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;

namespace {

bool reads_memory(const Expr& e) {
  bool found = false;
  ir::for_each_expr(e,
                    [&found](const Expr& x) { found = found || x.kind() == ir::ExprKind::kLoad; });
  return found;
}

// a + offset - b.
Linear gap(const Expr& a, const Expr& b, std::int64_t offset) {
  Linear out;
  flatten(a, 1, &out);
  flatten(b, -1, &out);
  out.add_constant(offset);
  return out;
}

}  // namespace

void Context::restore(const Mark& mark) {
  ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(mark.ranges), ranges_.end());
  facts_.erase(facts_.begin() + static_cast<std::ptrdiff_t>(mark.facts), facts_.end());
  known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(mark.known), known_.end());
}

void Context::assume(const Expr& cond, bool value) {
  if (cond.lanes() != 1 || cond.kind() == ir::ExprKind::kIntImm || reads_memory(cond)) return;
  if (const auto* call = cond.as<ir::Call>(); call && call->fn == ir::Intrinsic::kNot) {
    return assume(call->args[0], !value);
  }
  const auto* b = cond.as<Binary>();
  if (b && ((b->op == BinaryOp::kAnd && value) || (b->op == BinaryOp::kOr && !value))) {
    assume(b->a, value);
    return assume(b->b, value);
  }
  known_.emplace_back(cond, value);
  if (!b || !is_index(b->a)) return;
  if (b->op == BinaryOp::kLt) assume_non_positive(value ? gap(b->a, b->b, 1) : gap(b->b, b->a, 0));
  if (b->op == BinaryOp::kLe) assume_non_positive(value ? gap(b->a, b->b, 0) : gap(b->b, b->a, 1));
  if ((b->op == BinaryOp::kEq && value) || (b->op == BinaryOp::kNe && !value)) {
    assume_non_positive(gap(b->a, b->b, 0));
    assume_non_positive(gap(b->b, b->a, 0));
  }
}

void Context::assume_non_positive(const Linear& sum) {
  if (sum.overflow || sum.terms.empty()) return;
  facts_.push_back(sum);
  narrow(sum);
}

void Context::narrow(const Linear& sum) {
  for (std::size_t i = 0; i < sum.terms.size(); ++i) {
    const auto& [atom, c] = sum.terms[i];
    if (atom.kind() != ir::ExprKind::kVar || !is_index(atom)) continue;
    Linear rest = sum;
    rest.terms.erase(rest.terms.begin() + static_cast<std::ptrdiff_t>(i));
    const Interval others = bounds(rest);  // c*var <= -others
    std::int64_t limit = 0;
    if (!others.lo || __builtin_sub_overflow(std::int64_t{0}, *others.lo, &limit)) continue;
    Interval now = range(atom.get());
    if (c > 0) {
      const std::int64_t hi = floor_div(limit, c);
      if (now.hi && *now.hi <= hi) continue;
      now.hi = hi;
    } else {
      std::int64_t lo = 0;
      if (__builtin_sub_overflow(std::int64_t{0}, limit, &lo)) continue;
      if (__builtin_sub_overflow(std::int64_t{0}, c, &limit)) continue;
      lo = -floor_div(-lo, limit);  // the least var with |c|*var >= lo
      if (now.lo && *now.lo >= lo) continue;
      now.lo = lo;
    }
    bind(atom.get(), now);
  }
}

Interval Context::range(const ir::ExprNode* var) const {
  for (auto it = ranges_.rbegin(); it != ranges_.rend(); ++it) {
    if (it->first == var) return it->second;
  }
  const auto found = base_.find(var);
  return found == base_.end() ? Interval{} : found->second;
}

bool Context::prove_non_positive(const Linear& sum) const {
  if (sum.overflow) return false;
  const Interval direct = bounds(sum);
  if (direct.hi && *direct.hi <= 0) return true;
  // sum = fact + rest with rest <= 0.
  return std::any_of(facts_.begin(), facts_.end(), [&](const Linear& fact) {
    const Linear rest = difference(sum, fact);
    if (rest.overflow || rest.terms.size() > sum.terms.size()) return false;
    const Interval b = bounds(rest);
    return b.hi && *b.hi <= 0;
  });
}

std::optional<bool> Context::known(const Expr& cond) const {
  for (const auto& [expr, value] : known_) {
    if (ir::equal(expr, cond)) return value;
  }
  return std::nullopt;
}

}  // namespace tessera::arith
