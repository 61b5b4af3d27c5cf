#include "tessera/scheduling/lower/drop_roundings.h"

#include <algorithm>

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
