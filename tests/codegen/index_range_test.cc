#include "tessera/backend/codegen/llvm/index_range.h"

#include <gtest/gtest.h>

#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::BinaryOp;
using ir::Expr;

class IndexRange : public ::testing::Test {
 protected:
  std::string range(const Expr& e) const {
    const auto r = range_of(e, vars_);
    return r ? fmt::format("{}..{}", r->low, r->high) : "unknown";
  }
  static Expr op(BinaryOp o, const Expr& a, std::int64_t b) {
    return ir::Binary::make(o, a, ir::int_imm(b));
  }

  Expr i_ = ir::Var::make("i"), j_ = ir::Var::make("j"), other_ = ir::Var::make("other");
  VarRanges vars_ = {{i_.get(), {0, 9}}, {j_.get(), {-3, 5}}};
};

TEST_F(IndexRange, FollowsArithmetic) {
  EXPECT_EQ(range(ir::int_imm(-7)), "-7..-7");
  EXPECT_EQ(range(i_), "0..9");
  EXPECT_EQ(range(ir::Binary::make(BinaryOp::kAdd, i_, j_)), "-3..14");
  EXPECT_EQ(range(ir::Binary::make(BinaryOp::kSub, i_, j_)), "-5..12");
  EXPECT_EQ(range(ir::Binary::make(BinaryOp::kMul, i_, j_)), "-27..45");
  EXPECT_EQ(range(op(BinaryOp::kFloorDiv, j_, 2)), "-2..2");
  EXPECT_EQ(range(op(BinaryOp::kFloorMod, j_, 2)), "0..1");
  EXPECT_EQ(range(op(BinaryOp::kMod, i_, 4)), "0..3");
  EXPECT_EQ(range(op(BinaryOp::kMod, i_, 16)), "0..9");
  EXPECT_EQ(range(op(BinaryOp::kDiv, i_, 4)), "0..2");
  EXPECT_EQ(range(op(BinaryOp::kMin, i_, 4)), "0..4");
  EXPECT_EQ(range(op(BinaryOp::kMax, j_, 0)), "0..5");
}

TEST_F(IndexRange, GivesUpWhereItCannotTell) {
  EXPECT_EQ(range(other_), "unknown");
  EXPECT_EQ(range(ir::Binary::make(BinaryOp::kAdd, i_, other_)), "unknown");
  EXPECT_EQ(range(op(BinaryOp::kDiv, j_, 2)), "unknown");
  EXPECT_EQ(range(op(BinaryOp::kFloorDiv, i_, -2)), "unknown");
  EXPECT_EQ(range(ir::Binary::make(BinaryOp::kMin, i_, other_)), "unknown");
  EXPECT_EQ(range(op(BinaryOp::kMul, i_, INT64_MAX)), "unknown");
}

TEST_F(IndexRange, CoversAllLanes) {
  EXPECT_EQ(range(ir::Ramp::make(i_, 2, 4)), "0..15");
  EXPECT_EQ(range(ir::Ramp::make(j_, -1, 4)), "-6..5");
  EXPECT_EQ(range(ir::Broadcast::make(j_, 4)), "-3..5");
}

TEST_F(IndexRange, AClampBoundsWhatIsUnknown) {
  EXPECT_EQ(range(op(BinaryOp::kMin, op(BinaryOp::kMax, other_, 0), 6)), "0..6");
  EXPECT_EQ(range(op(BinaryOp::kMax, op(BinaryOp::kMin, other_, 6), 0)), "0..6");
}

TEST_F(IndexRange, OfALoadIsThePlaceInItsBuffer) {
  const ir::Buffer b = ir::Buffer::make("b", DType::kF32, {10, 20});
  const auto place = [&](const Expr& row, const Expr& column) {
    const Expr e = ir::Load::make(b, {row, column});
    const auto r = range_of(*e.as<ir::Load>(), vars_);
    return r ? fmt::format("{}..{}", r->low, r->high) : "unknown";
  };
  EXPECT_EQ(place(i_, j_), "-3..185");
  EXPECT_EQ(place(i_, ir::Ramp::make(ir::int_imm(4), 1, 8)), "4..191");
  const Expr rows = ir::Broadcast::make(other_, 8);
  const Expr clamped =
      ir::min(ir::max(rows, ir::imm_like(rows.type(), 0)), ir::imm_like(rows.type(), 9));
  EXPECT_EQ(place(clamped, ir::Ramp::make(i_, 1, 8)), "0..196");
  EXPECT_EQ(place(other_, i_), "unknown");
}

TEST_F(IndexRange, SaysWhatFitsIn32Bits) {
  EXPECT_TRUE(fits_32_bits(range_of(op(BinaryOp::kMul, i_, 200'000'000), vars_)));
  EXPECT_FALSE(fits_32_bits(range_of(op(BinaryOp::kMul, i_, 300'000'000), vars_)));
  EXPECT_FALSE(fits_32_bits(std::nullopt));
}

}  // namespace
}  // namespace tessera::codegen
