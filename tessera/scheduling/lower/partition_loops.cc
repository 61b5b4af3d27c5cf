#include "tessera/scheduling/lower/partition_loops.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/support/planted.h"

namespace tessera::lower {
namespace {

// Loops over selects are cut only up to this many expression nodes: each cut copies the body.
constexpr int kMaxSelectBody = 600;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

// Calls fn on each comparison of a conjunction.
void for_each_conjunct(const ir::Expr& cond, const std::function<void(const ir::Expr&)>& fn) {
  const auto* b = cond.as<ir::Binary>();
  if (b && b->op == ir::BinaryOp::kAnd && cond.dtype() == DType::kBool) {
    for_each_conjunct(b->a, fn);
    for_each_conjunct(b->b, fn);
    return;
  }
  fn(cond);
}

// f with cond <=> f < 0, for integer comparisons by order.
std::optional<ir::Expr> below_zero(const ir::Expr& cond) {
  const auto* b = cond.as<ir::Binary>();
  if (!b || b->a.dtype() != DType::kI64 || b->a.lanes() != 1) return std::nullopt;
  if (b->op == ir::BinaryOp::kLt) return b->a - b->b;
  if (b->op == ir::BinaryOp::kLe) return b->a - b->b - 1;
  return std::nullopt;
}

// A part of a fused loop's variable: divisions and remainders of it by constants.
bool is_digit(const ir::Expr& e, const ir::Expr& var) {
  const auto* b = e.as<ir::Binary>();
  if (!b || (b->op != ir::BinaryOp::kFloorDiv && b->op != ir::BinaryOp::kFloorMod)) return false;
  return ir::as_const_int(b->b) && (b->a.same_as(var) || is_digit(b->a, var));
}

// Puts a variable in the place of every digit equal to `digit`.
class NameDigit final : public ir::Mutator {
 public:
  NameDigit(const ir::Expr& digit, const ir::Expr& name) : digit_(digit), name_(name) {}

 private:
  using ir::Mutator::rewrite;
  ir::Expr rewrite(const ir::Expr& e, const ir::Binary& node) override {
    return ir::equal(e, digit_) ? name_ : Mutator::rewrite(e, node);
  }
  const ir::Expr& digit_;
  const ir::Expr& name_;
};

struct Cut {
  std::int64_t lo, hi;  // conditions hold for var in [lo, hi)
  std::int64_t dead;    // from here on one of them fails whatever the inner loops do
};

class PartitionLoops final : public ir::Mutator {
 public:
  explicit PartitionLoops(const LoopAttrs& attrs) : attrs_(attrs) {}

 private:
  using ir::Mutator::rewrite;

  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    const auto extent = ir::as_const_int(loop.extent);
    if (!extent) return Mutator::rewrite(s, loop);
    ranges_[loop.var.get()] = arith::Interval::of_extent(*extent);
    if (cuts_instruction(loop)) {
      std::vector<ir::Stmt> parts;
      for (std::int64_t i = 0; i < *extent; ++i) part(loop, i, i + 1, &parts);
      return ir::Block::make(std::move(parts));
    }
    const bool serial = loop.loop_kind == ir::LoopKind::kSerial;
    const bool parallel = loop.loop_kind == ir::LoopKind::kParallel;
    if (!serial && !parallel) return Mutator::rewrite(s, loop);
    const bool peel = attrs_.peel.count(loop.var.get()) > 0;
    if (parallel) {
      const ir::Stmt body = cut_digits(loop.body, digits_of(loop, peel), peel);
      if (body && body.same_as(loop.body)) return s;
      return body ? ir::For::make(loop.var, loop.extent, loop.loop_kind, body) : body;
    }
    const std::optional<Cut> cut = find_cut(loop.body, loop.var, *extent, peel);
    if (!cut) return Mutator::rewrite(s, loop);
    std::vector<ir::Stmt> parts;
    part(loop, 0, cut->lo, &parts);
    part(loop, cut->lo, cut->hi, &parts);
    part(loop, cut->hi + (planted(8) ? 1 : 0), cut->dead, &parts);
    part(loop, cut->dead, *extent, &parts);
    return ir::Block::make(std::move(parts));
  }

  // An unrolled loop whose last iterations leave only a part of an instruction's lanes: each
  // becomes a copy, so that the rest is an instruction of fewer lanes.
  bool cuts_instruction(const ir::For& loop) const {
    if (loop.loop_kind != ir::LoopKind::kUnrolled || attrs_.warp > 0 ||
        attrs_.peel.count(loop.var.get()) == 0)
      return false;
    const auto* lanes = loop.body.as<ir::For>();
    const auto* guard = lanes ? lanes->body.as<ir::If>() : nullptr;
    return guard && attrs_.tensorize.count(lanes->var.get()) > 0 &&
           ir::uses_var(guard->cond, loop.var);
  }

  void part(const ir::For& loop, std::int64_t begin, std::int64_t end, std::vector<ir::Stmt>* out) {
    if (begin >= end) return;
    // A fresh variable: the parts have different ranges.
    const ir::Expr var = ir::Var::make(loop.var.as<ir::Var>()->name);
    const ir::Stmt shifted = ir::For::make(var, end - begin, loop.loop_kind,
                                           ir::substitute(loop.body, loop.var, var + begin));
    const ir::Stmt simple = arith::simplify(shifted, ranges_);
    if (is_empty(simple)) return;
    if (const auto* inner = simple.as<ir::For>(); inner && inner->var.same_as(var)) {
      ranges_[inner->var.get()] = arith::Interval::of_extent(end - begin);
      out->push_back(Mutator::rewrite(simple, *inner));
    } else {
      out->push_back((*this)(simple));
    }
  }

  using Continue = std::function<ir::Stmt(const ir::Stmt&)>;

  // Iterations of a parallel loop must stay one loop, so its body branches: before, inside, after
  // the cut.
  ir::Stmt unswitch(const ir::Stmt& body, const ir::Expr& var, std::int64_t extent, const Cut& cut,
                    const Continue& inside) {
    ir::Stmt out = narrowed(body, var, cut.hi, extent, inside);
    out =
        branch(ir::lt(var, ir::int_imm(cut.hi)), narrowed(body, var, cut.lo, cut.hi, inside), out);
    if (cut.lo > 0)
      out = branch(ir::lt(var, ir::int_imm(cut.lo)), narrowed(body, var, 0, cut.lo, inside), out);
    return out;
  }

  // The body for `var` in [begin, end), simplified and cut further inside; null when nothing
  // remains.
  ir::Stmt narrowed(const ir::Stmt& body, const ir::Expr& var, std::int64_t begin, std::int64_t end,
                    const Continue& inside) {
    if (begin >= end) return {};
    const arith::Interval whole =
        std::exchange(ranges_[var.get()], arith::Interval{begin, end - 1});
    const ir::Stmt simple = arith::simplify(body, ranges_);
    ir::Stmt out = is_empty(simple) ? ir::Stmt() : inside(simple);
    ranges_[var.get()] = whole;
    return is_empty(out) ? ir::Stmt() : out;
  }

  // The variable of a loop, and of a fused one the parts that conditions of its body depend on.
  static std::vector<ir::Expr> digits_of(const ir::For& loop, bool peel) {
    std::vector<ir::Expr> out = {loop.var};
    const auto collect = [&](const ir::Expr& cond) {
      ir::for_each_expr(cond, [&](const ir::Expr& e) {
        const bool known =
            std::any_of(out.begin(), out.end(), [&](const ir::Expr& d) { return ir::equal(d, e); });
        if (!known && is_digit(e, loop.var)) out.push_back(e);
      });
    };
    if (peel) {
      ir::for_each_stmt(loop.body, [&](const ir::Stmt& s) {
        if (const auto* i = s.as<ir::If>()) collect(i->cond);
      });
    }
    ir::for_each_expr(loop.body, [&](const ir::Expr& e) {
      if (const auto* sel = e.as<ir::Select>()) collect(sel->cond);
    });
    return out;
  }

  // The body of a loop that stays one loop branches on each part of its variable.
  ir::Stmt cut_digits(const ir::Stmt& body, std::vector<ir::Expr> digits, bool peel) {
    if (digits.empty()) return (*this)(body);
    const ir::Expr digit = digits.back();
    digits.pop_back();
    const arith::Interval range = arith::const_bounds(digit, ranges_);
    const auto inside = [&](const ir::Stmt& s) { return cut_digits(s, digits, peel); };
    if (range.lo != 0 || !range.hi) return inside(body);
    const bool whole = digit.as<ir::Var>() != nullptr;
    const ir::Expr name = whole ? digit : ir::Var::make("part");
    ranges_[name.get()] = range;
    const ir::Stmt named = whole ? body : NameDigit(digit, name)(body);
    const std::optional<Cut> cut = find_cut(named, name, *range.hi + 1, peel);
    if (!cut) return inside(body);
    const ir::Stmt out = unswitch(named, name, *range.hi + 1, *cut, inside);
    return out && !whole ? ir::substitute(out, name, digit) : out;
  }

  static bool is_empty(const ir::Stmt& s) {
    const auto* block = s.as<ir::Block>();
    return !s || (block && block->stmts.empty());
  }

  static ir::Stmt branch(const ir::Expr& cond, const ir::Stmt& on_true, const ir::Stmt& on_false) {
    if (!on_true) return on_false ? ir::If::make(ir::logical_not(cond), on_false) : on_false;
    return ir::If::make(cond, on_true, on_false);
  }

  // The range of the variable on which all its conditions hold whatever the inner loops do.
  std::optional<Cut> find_cut(const ir::Stmt& body, const ir::Expr& var, std::int64_t extent,
                              bool peel) {
    Cut cut{0, extent, extent};
    int nodes = 0;
    bool found = false;
    inner_ = ranges_;
    const auto consider = [&](const ir::Expr& cond) {
      for_each_conjunct(cond,
                        [&](const ir::Expr& c) { found = narrow(c, var, extent, &cut) || found; });
    };
    ir::for_each_stmt(body, [&](const ir::Stmt& s) {
      if (const auto* f = s.as<ir::For>()) {
        if (const auto e = ir::as_const_int(f->extent))
          inner_[f->var.get()] = arith::Interval::of_extent(*e);
      }
      if (const auto* i = s.as<ir::If>(); i && peel) consider(i->cond);
    });
    ir::for_each_expr(body, [&](const ir::Expr& e) {
      ++nodes;
      if (const auto* sel = e.as<ir::Select>()) consider(sel->cond);
    });
    if (!found || cut.lo >= cut.hi || (!peel && nodes > kMaxSelectBody)) return std::nullopt;
    if (cut.lo == 0 && cut.hi == extent) return std::nullopt;
    return cut;
  }

  bool narrow(const ir::Expr& cond, const ir::Expr& var, std::int64_t extent, Cut* cut) const {
    const auto f = below_zero(cond);
    if (!f || !ir::uses_var(*f, var)) return false;
    const auto form = arith::split_on(*f, var);
    if (!form || form->coefficient == 0) return false;
    const arith::Interval rest = arith::const_bounds(form->rest, inner_);
    const auto worst = rest.hi;
    if (!worst) return false;
    Cut narrowed = *cut;
    if (form->coefficient > 0) {
      if (rest.lo)
        narrowed.dead = std::min(narrowed.dead, floor_div(-*rest.lo - 1, form->coefficient) + 1);
      narrowed.hi = std::min(narrowed.hi, floor_div(-*worst - 1, form->coefficient) + 1);
    } else {
      narrowed.lo = std::max(narrowed.lo, floor_div(*worst, -form->coefficient) + 1);
    }
    // A condition that never surely holds here says nothing about this loop.
    if (narrowed.lo >= narrowed.hi || narrowed.hi <= 0 || narrowed.lo >= extent) return false;
    narrowed.dead = std::max(narrowed.dead, narrowed.hi);
    *cut = narrowed;
    return true;
  }

  const LoopAttrs& attrs_;
  arith::Ranges ranges_;
  arith::Ranges inner_;
};

class TrimLoops final : public ir::Mutator {
  using ir::Mutator::rewrite;

  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    const ir::Stmt inner = Mutator::rewrite(s, loop);
    const auto* node = inner ? inner.as<ir::For>() : nullptr;
    const auto* guard = node ? node->body.as<ir::If>() : nullptr;
    const auto extent = node ? ir::as_const_int(node->extent) : std::nullopt;
    if (!guard || guard->else_body || !extent) return inner;
    ir::Expr bound = node->extent;
    ir::Expr rest;
    bool trimmed = false;
    for_each_conjunct(guard->cond, [&](const ir::Expr& c) {
      const std::optional<ir::Expr> end = upper_end(c, node->var);
      const bool constant = end && ir::as_const_int(*end);
      if (end && (constant || node->loop_kind == ir::LoopKind::kSerial)) {
        bound = ir::min(bound, *end);
        trimmed = true;
      } else {
        rest = rest ? ir::logical_and(rest, c) : c;
      }
    });
    if (!trimmed) return inner;
    bound = arith::simplify(ir::max(bound, ir::int_imm(0)));
    return ir::For::make(node->var, bound, node->loop_kind,
                         rest ? ir::If::make(rest, guard->then_body) : guard->then_body);
  }

  // m with cond <=> var < m, if cond has this form.
  static std::optional<ir::Expr> upper_end(const ir::Expr& cond, const ir::Expr& var) {
    const auto f = below_zero(cond);
    if (!f) return std::nullopt;
    const auto form = arith::split_on(*f, var);
    if (!form || form->coefficient < 1) return std::nullopt;
    // c*v + rest < 0  <=>  v < ceil(-rest / c)
    const std::int64_t c = form->coefficient;
    return arith::simplify(ir::floor_div(ir::int_imm(c - 1) - form->rest, ir::int_imm(c)));
  }
};

}  // namespace

ir::Stmt partition_loops(const ir::Stmt& s, const LoopAttrs& attrs) {
  return PartitionLoops(attrs)(s);
}

ir::Stmt trim_loops(const ir::Stmt& s) { return TrimLoops()(s); }

}  // namespace tessera::lower
