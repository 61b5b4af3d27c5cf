#include "tessera/scheduling/lower/unroll_loops.h"

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

class MarkAutoUnroll final : public ir::Mutator {
 public:
  explicit MarkAutoUnroll(const LoopAttrs& attrs) : attrs_(attrs) {}

 private:
  using ir::Mutator::rewrite;
  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    const std::int64_t outer = limit_;
    if (const auto it = attrs_.auto_unroll.find(loop.var.get()); it != attrs_.auto_unroll.end())
      limit_ = it->second;
    const std::int64_t limit = limit_;
    const std::int64_t sibling = steps_;
    steps_ = 1;
    const ir::Stmt inner = Mutator::rewrite(s, loop);
    limit_ = outer;
    const auto* node = inner.as<ir::For>();
    if (!node) return inner;
    const auto extent = ir::as_const_int(node->extent);
    const std::int64_t below = steps_;
    steps_ = std::max(sibling, extent ? below * *extent : kTooMany);
    if (!extent || node->loop_kind != ir::LoopKind::kSerial || below * *extent > limit)
      return inner;
    return ir::For::make(node->var, node->extent, ir::LoopKind::kUnrolled, node->body);
  }

  static constexpr std::int64_t kTooMany = std::int64_t{1} << 30;
  const LoopAttrs& attrs_;
  std::int64_t limit_ = 0;  // of the pragma in force
  std::int64_t steps_ = 1;  // product of extents in the deepest nest below
};

class UnrollLoops final : public ir::Mutator {
  using ir::Mutator::rewrite;
  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    if (loop.loop_kind != ir::LoopKind::kUnrolled) return Mutator::rewrite(s, loop);
    const ir::Stmt body = (*this)(loop.body);
    if (!body) return body;
    const auto extent = ir::as_const_int(loop.extent);
    TESSERA_CHECK(extent.has_value(), "unrolled loop without constant extent");
    std::vector<ir::Stmt> copies;
    for (std::int64_t i = 0; i < *extent; ++i)
      copies.push_back(ir::substitute(body, loop.var, ir::int_imm(i)));
    return ir::Block::make(std::move(copies));
  }
};

}  // namespace

ir::Stmt mark_auto_unroll(const ir::Stmt& s, const LoopAttrs& attrs) {
  return attrs.auto_unroll.empty() ? s : MarkAutoUnroll(attrs)(s);
}

ir::Stmt unroll_loops(const ir::Stmt& s) { return UnrollLoops()(s); }

}  // namespace tessera::lower
