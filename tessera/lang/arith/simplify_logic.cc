#include "tessera/lang/arith/simplifier.h"
#include "tessera/lang/ir/build.h"

namespace tessera::arith {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;

namespace {

// Beyond this many parts the pairwise test of drop_implied costs more than it saves.
constexpr std::size_t kMaxImplicationParts = 8;

void collect(BinaryOp op, const Expr& e, std::vector<Expr>* parts) {
  const auto* b = e.as<Binary>();
  if (b && b->op == op) {
    collect(op, b->a, parts);
    collect(op, b->b, parts);
  } else {
    parts->push_back(e);
  }
}

}  // namespace

// Each part is simplified knowing that the parts before it are true (of a disjunction: false),
// unless it reads memory: it is evaluated whatever the others say, and what keeps its reads within
// bounds must stay.
Expr Simplifier::visit_junction(const Expr& e, const Binary& b) {
  const bool conjunction = b.op == BinaryOp::kAnd;
  std::vector<Expr> parts;
  collect(b.op, e, &parts);
  for (Expr& part : parts) {
    if (reads_memory(part)) part = visit(part);
  }
  std::vector<Expr> kept;
  {
    Scope scope(this);
    for (const Expr& part : parts) {
      const Expr now = reads_memory(part) ? part : visit(part);
      if (const auto value = ir::as_const_int(now)) {
        if ((*value != 0) == conjunction) continue;
        return ir::bool_imm(!conjunction);
      }
      kept.push_back(now);
      scope.assume(now, conjunction);
      memo_.clear();
    }
  }
  if (kept.size() > 1 && kept.size() <= kMaxImplicationParts) drop_implied(conjunction, &kept);
  if (kept.empty()) return ir::bool_imm(conjunction);
  Expr out = kept[0];
  for (std::size_t i = 1; i < kept.size(); ++i) out = Binary::make(b.op, out, kept[i]);
  return keep_handle(e, out);
}

// Removes the parts that follow from the ones after them.
void Simplifier::drop_implied(bool conjunction, std::vector<Expr>* parts) {
  for (std::size_t i = parts->size() - 1; i-- > 0;) {
    Scope scope(this);
    for (std::size_t j = i + 1; j < parts->size(); ++j) scope.assume((*parts)[j], conjunction);
    const auto value = ir::as_const_int(visit((*parts)[i]));
    if (value && (*value != 0) == conjunction)
      parts->erase(parts->begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Expr Simplifier::visit_not(const Expr& e, const ir::Call& call) {
  const Expr value = visit(call.args[0]);
  if (const auto c = ir::as_const_int(value)) return ir::bool_imm(*c == 0);
  if (const auto* inner = value.as<ir::Call>(); inner && inner->fn == ir::Intrinsic::kNot)
    return inner->args[0];
  if (const auto* b = value.as<Binary>(); b && ir::is_comparison(b->op)) {
    const bool total_order = !is_float(b->a.dtype());  // NaN is neither below nor above
    if (b->op == BinaryOp::kEq) return Binary::make(BinaryOp::kNe, b->a, b->b);
    if (b->op == BinaryOp::kNe) return Binary::make(BinaryOp::kEq, b->a, b->b);
    if (total_order) {
      return visit(
          Binary::make(b->op == BinaryOp::kLt ? BinaryOp::kLe : BinaryOp::kLt, b->b, b->a));
    }
  }
  return value.same_as(call.args[0]) ? e : ir::logical_not(value);
}

}  // namespace tessera::arith
