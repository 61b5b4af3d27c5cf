#include "tessera/scheduling/lower/drop_roundings.h"

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
};

}  // namespace

ir::Stmt drop_roundings(const ir::Stmt& s) { return DropRoundings()(s); }

}  // namespace tessera::lower
