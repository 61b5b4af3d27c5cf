#include "evaluate.h"

#include "tessera/lang/ir/fold.h"

namespace tessera::arith {

std::int64_t evaluate(const ir::Expr& e, const Point& point) {
  switch (e.kind()) {
    case ir::ExprKind::kIntImm:
      return e.as<ir::IntImm>()->value;
    case ir::ExprKind::kVar:
      return point.at(e.get());
    case ir::ExprKind::kBinary: {
      const auto* b = e.as<ir::Binary>();
      return ir::fold_int(b->op, b->a.dtype(), evaluate(b->a, point), evaluate(b->b, point));
    }
    case ir::ExprKind::kSelect: {
      const auto* s = e.as<ir::Select>();
      return evaluate(evaluate(s->cond, point) ? s->on_true : s->on_false, point);
    }
    case ir::ExprKind::kCast:
      return wrap_int(e.dtype(), evaluate(e.as<ir::Cast>()->value, point));
    case ir::ExprKind::kCall: {
      const auto* call = e.as<ir::Call>();
      TESSERA_CHECK(call->fn == ir::Intrinsic::kNot && e.dtype() == DType::kBool,
                    "evaluate: not a logical not");
      return evaluate(call->args[0], point) ? 0 : 1;
    }
    default:
      break;
  }
  TESSERA_CHECK(false, "evaluate: unexpected node");
}

Point random_point(const Ranges& ranges, Rng* rng) {
  Point out;
  for (const auto& [var, range] : ranges) out[var] = rng->between(*range.lo, *range.hi);
  return out;
}

}  // namespace tessera::arith
