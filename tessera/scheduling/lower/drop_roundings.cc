#include "tessera/scheduling/lower/drop_roundings.h"

#include <algorithm>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

bool is_short(DType t) { return t == DType::kF16 || t == DType::kBF16; }

class DropRoundings final : public ir::Mutator {
 private:
  using ir::Mutator::rewrite;

  ir::Expr rewrite(const ir::Expr& e, const ir::Cast& cast) override {
    const auto* rounded = cast.value.as<ir::Cast>();
    const bool back = e.dtype() == DType::kF32 && rounded != nullptr &&
                      is_short(cast.value.dtype()) && rounded->value.dtype() == DType::kF32;
    return back ? (*this)(rounded->value) : Mutator::rewrite(e, cast);
  }

  // Rounding keeps the order of numbers: the lesser or greater of two may be rounded instead of
  // both, where no instruction compares them as they are.
  ir::Expr rewrite(const ir::Expr& e, const ir::Binary& binary) override {
    const ir::Expr now = Mutator::rewrite(e, binary);
    const auto* pair = now.as<ir::Binary>();
    const bool orders = pair && (pair->op == ir::BinaryOp::kMin || pair->op == ir::BinaryOp::kMax);
    if (!orders || now.dtype() != DType::kBF16) return now;
    const auto rounded = [](const ir::Expr& x) {
      const auto* cast = x.as<ir::Cast>();
      return cast && cast->value.dtype() == DType::kF32 ? cast : nullptr;
    };
    if (!rounded(pair->a) && !rounded(pair->b)) return now;
    const auto wide = [&](const ir::Expr& x) {
      return rounded(x) ? rounded(x)->value : ir::cast(DType::kF32, x);
    };
    return ir::cast(DType::kBF16, ir::Binary::make(pair->op, wide(pair->a), wide(pair->b)));
  }
};

}  // namespace

ir::Func drop_roundings(const ir::Func& func) {
  const auto outputs = func.params.end() - func.num_outputs;
  if (std::none_of(func.params.begin(), outputs,
                   [](const ir::Buffer& read) { return is_short(read->dtype); }))
    return func;
  ir::Func out = func;
  out.body = DropRoundings()(func.body);
  return out;
}

}  // namespace tessera::lower
