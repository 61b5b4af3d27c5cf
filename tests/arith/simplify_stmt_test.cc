#include <gtest/gtest.h>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/text.h"

namespace tessera::arith {
namespace {

using ir::Expr;
using ir::int_imm;
using ir::LoopKind;
using ir::Stmt;

class SimplifyStmt : public ::testing::Test {
 protected:
  Stmt store(const Expr& index) const {
    return ir::Store::make(a, {index}, ir::imm(DType::kF32, 1));
  }
  static Stmt loop(const Expr& var, std::int64_t extent, const Stmt& body,
                   LoopKind kind = LoopKind::kSerial) {
    return ir::For::make(var, extent, kind, body);
  }
  // Simplifies and expects `want`; a second round must keep the handle.
  static void expect(const Stmt& s, const Stmt& want) {
    const Stmt got = simplify(s);
    EXPECT_TRUE(ir::equal(got, want)) << "got\n"
                                      << ir::to_text(got) << "want\n"
                                      << ir::to_text(want);
    EXPECT_TRUE(simplify(got).same_as(got));
  }

  const ir::Buffer a = ir::Buffer::make("A", DType::kF32, {64});
  const Expr i = ir::Var::make("i");
  const Expr j = ir::Var::make("j");
};

TEST_F(SimplifyStmt, UsesLoopRanges) {
  const Expr flat = ir::floor_div(i * 8 + j, int_imm(8)) * 8 + ir::floor_mod(i * 8 + j, int_imm(8));
  expect(loop(i, 8, loop(j, 8, store(flat))), loop(i, 8, loop(j, 8, store(i * 8 + j))));
}

TEST_F(SimplifyStmt, SingleIterationsAreSubstituted) {
  expect(loop(i, 1, loop(j, 8, store(i * 8 + j)), LoopKind::kParallel), loop(j, 8, store(j)));
  expect(loop(i, 1, store(i + 3), LoopKind::kThreadX),
         loop(i, 1, store(int_imm(3)), LoopKind::kThreadX));
}

TEST_F(SimplifyStmt, EmptyLoopsVanish) {
  expect(ir::Block::make({loop(i, 0, store(i)), store(int_imm(2))}), store(int_imm(2)));
  expect(loop(i, 4, loop(j, 0, store(i))), ir::Block::make({}));
}

TEST_F(SimplifyStmt, FoldsConditions) {
  const Stmt guarded = ir::If::make(ir::lt(i * 8 + j, int_imm(64)), store(i * 8 + j));
  expect(loop(i, 8, loop(j, 8, guarded)), loop(i, 8, loop(j, 8, store(i * 8 + j))));
  const Stmt kept = ir::If::make(ir::lt(i * 8 + j, int_imm(60)), store(i * 8 + j));
  const Stmt nest = loop(i, 8, loop(j, 8, kept));
  EXPECT_TRUE(simplify(nest).same_as(nest));
  expect(loop(i, 8, ir::If::make(ir::lt(i, int_imm(0)), store(i), store(i + 1))),
         loop(i, 8, store(i + 1)));
}

TEST_F(SimplifyStmt, InnerConditionsFollowFromOuterOnes) {
  const Expr outer = ir::lt(i * 8 + j, int_imm(60));
  const Expr weaker = ir::lt(i * 8 + j, int_imm(61));
  const auto nest = [&](const Stmt& s) { return loop(i, 8, loop(j, 8, ir::If::make(outer, s))); };
  expect(nest(ir::If::make(weaker, store(j))), nest(store(j)));
  expect(nest(ir::If::make(ir::logical_not(outer), store(i), store(j))), nest(store(j)));
  expect(loop(i, 8, ir::If::make(ir::lt(i, int_imm(5)), store(ir::min(i, int_imm(4))))),
         loop(i, 8, ir::If::make(ir::lt(i, int_imm(5)), store(i))));
  expect(loop(i, 8, ir::If::make(ir::lt(i, int_imm(5)), store(i), store(ir::max(i, int_imm(5))))),
         loop(i, 8, ir::If::make(ir::lt(i, int_imm(5)), store(i), store(i))));
}

TEST_F(SimplifyStmt, VariableExtentsBoundTheirLoop) {
  const Expr extent = ir::min(int_imm(8), int_imm(60) - i * 8);
  const Stmt body = ir::If::make(ir::lt(i * 8 + j, int_imm(60)), store(i * 8 + j));
  expect(loop(i, 8, ir::For::make(j, extent, LoopKind::kSerial, body)),
         loop(i, 8,
              ir::For::make(j, ir::min(int_imm(60) - i * 8, int_imm(8)), LoopKind::kSerial,
                            store(i * 8 + j))));
}

TEST_F(SimplifyStmt, ConditionsOnMemoryAreNotRemembered) {
  const ir::Buffer flag = ir::Buffer::make("F", DType::kI64, {1});
  const Expr set = ir::lt(ir::Load::make(flag, {int_imm(0)}), int_imm(3));
  const Stmt clear = ir::Store::make(flag, {int_imm(0)}, int_imm(9));
  const Stmt s = ir::If::make(set, ir::Block::make({clear, ir::If::make(set, store(int_imm(0)))}));
  EXPECT_TRUE(simplify(s).same_as(s));
}

}  // namespace
}  // namespace tessera::arith
