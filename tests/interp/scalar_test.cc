#include "tessera/lang/interp/scalar.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/lang/ir/fold.h"

namespace tessera::interp {
namespace {

using ir::BinaryOp;
using ir::Intrinsic;

std::int64_t ints(BinaryOp op, DType t, std::int64_t a, std::int64_t b) {
  return binary(op, t, of_int(a), of_int(b)).i;
}
double floats(BinaryOp op, DType t, double a, double b) {
  return binary(op, t, of_float(a), of_float(b)).f;
}

constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

TEST(Scalar, IntegersWrap) {
  EXPECT_EQ(ints(BinaryOp::kAdd, DType::kI8, 127, 1), -128);
  EXPECT_EQ(ints(BinaryOp::kSub, DType::kU8, 0, 1), 255);
  EXPECT_EQ(ints(BinaryOp::kMul, DType::kI32, 1 << 20, 1 << 12), 0);
  EXPECT_EQ(ints(BinaryOp::kAdd, DType::kI64, std::numeric_limits<std::int64_t>::max(), 1), kMin64);
  EXPECT_EQ(ints(BinaryOp::kDiv, DType::kI64, kMin64, -1), kMin64);
  EXPECT_EQ(ints(BinaryOp::kDiv, DType::kI8, -128, -1), -128);
}

TEST(Scalar, DivisionByZeroGivesZero) {
  for (const BinaryOp op :
       {BinaryOp::kDiv, BinaryOp::kMod, BinaryOp::kFloorDiv, BinaryOp::kFloorMod}) {
    EXPECT_EQ(ints(op, DType::kI32, 7, 0), 0);
    EXPECT_EQ(ints(op, DType::kU64, 7, 0), 0);
  }
}

TEST(Scalar, DivisionTruncatesOrFloors) {
  EXPECT_EQ(ints(BinaryOp::kDiv, DType::kI32, -7, 2), -3);
  EXPECT_EQ(ints(BinaryOp::kMod, DType::kI32, -7, 2), -1);
  EXPECT_EQ(ints(BinaryOp::kFloorDiv, DType::kI32, -7, 2), -4);
  EXPECT_EQ(ints(BinaryOp::kFloorMod, DType::kI32, -7, 2), 1);
  EXPECT_EQ(ints(BinaryOp::kFloorDiv, DType::kI32, 7, -2), -4);
  EXPECT_EQ(ints(BinaryOp::kFloorMod, DType::kI32, 7, -2), -1);
  EXPECT_EQ(ints(BinaryOp::kFloorDiv, DType::kI32, -8, 2), -4);
  EXPECT_EQ(ints(BinaryOp::kDiv, DType::kU64, -2, 2), std::numeric_limits<std::int64_t>::max());
}

TEST(Scalar, ComparisonsRespectSign) {
  EXPECT_EQ(ints(BinaryOp::kLt, DType::kI64, -1, 1), 1);
  EXPECT_EQ(ints(BinaryOp::kLt, DType::kU64, -1, 1), 0);
  EXPECT_EQ(ints(BinaryOp::kMax, DType::kU64, -1, 1), -1);
  EXPECT_EQ(ints(BinaryOp::kLe, DType::kI8, 3, 3), 1);
  EXPECT_EQ(binary(BinaryOp::kLe, DType::kF32, of_float(kNan), of_float(kNan)).i, 0);
  EXPECT_EQ(binary(BinaryOp::kNe, DType::kF32, of_float(kNan), of_float(kNan)).i, 1);
}

TEST(Scalar, BitsAndShifts) {
  EXPECT_EQ(ints(BinaryOp::kXor, DType::kU8, 0xf0, 0xff), 0x0f);
  EXPECT_EQ(ints(BinaryOp::kShl, DType::kI8, 1, 7), -128);
  EXPECT_EQ(ints(BinaryOp::kShl, DType::kI8, 1, 9), 2);
  EXPECT_EQ(ints(BinaryOp::kShr, DType::kI32, -8, 1), -4);
  EXPECT_EQ(ints(BinaryOp::kShr, DType::kU64, -1, 63), 1);
  EXPECT_EQ(ints(BinaryOp::kAnd, DType::kBool, 1, 0), 0);
}

TEST(Scalar, NarrowFloatsRoundEveryOperation) {
  EXPECT_EQ(floats(BinaryOp::kAdd, DType::kF32, 1, 0x1p-24), 1);
  EXPECT_EQ(floats(BinaryOp::kAdd, DType::kF64, 1, 0x1p-24), 1 + 0x1p-24);
  EXPECT_EQ(floats(BinaryOp::kAdd, DType::kF16, 2048, 1), 2048);
  EXPECT_EQ(floats(BinaryOp::kMul, DType::kF16, 60000, 2), kInf);
  EXPECT_EQ(floats(BinaryOp::kAdd, DType::kBF16, 256, 1), 256);
}

TEST(Scalar, MinAndMaxPropagateNan) {
  EXPECT_TRUE(std::isnan(floats(BinaryOp::kMin, DType::kF32, kNan, 1)));
  EXPECT_TRUE(std::isnan(floats(BinaryOp::kMax, DType::kF64, 1, kNan)));
  EXPECT_EQ(floats(BinaryOp::kMin, DType::kF32, 2, 1), 1);
  EXPECT_EQ(floats(BinaryOp::kMax, DType::kF32, 2, 1), 2);
}

TEST(Scalar, FloatToIntTruncatesAndSaturates) {
  const auto cast = [](DType to, double v) { return convert(DType::kF64, to, of_float(v)).i; };
  EXPECT_EQ(cast(DType::kI32, -2.9), -2);
  EXPECT_EQ(cast(DType::kI8, 300), 127);
  EXPECT_EQ(cast(DType::kI8, -300), -128);
  EXPECT_EQ(cast(DType::kU8, -0.5), 0);
  EXPECT_EQ(cast(DType::kU8, -3), 0);
  EXPECT_EQ(cast(DType::kU8, kInf), 255);
  EXPECT_EQ(cast(DType::kI64, kInf), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(cast(DType::kI64, -kInf), kMin64);
  EXPECT_EQ(cast(DType::kU64, 0x1p63), kMin64);  // the bits of 2^63
  EXPECT_EQ(cast(DType::kU64, 1e30), -1);
  EXPECT_EQ(cast(DType::kI32, kNan), 0);
  EXPECT_EQ(cast(DType::kBool, 0.25), 1);
}

TEST(Scalar, IntConversions) {
  EXPECT_EQ(convert(DType::kI32, DType::kI8, of_int(200)).i, -56);
  EXPECT_EQ(convert(DType::kI8, DType::kU32, of_int(-1)).i, 0xffffffff);
  EXPECT_EQ(convert(DType::kU64, DType::kF64, of_int(-1)).f, 0x1p64);
  EXPECT_EQ(convert(DType::kI64, DType::kF32, of_int((std::int64_t{1} << 24) + 1)).f, 0x1p24);
  EXPECT_EQ(convert(DType::kI32, DType::kF16, of_int(2049)).f, 2048);
  EXPECT_EQ(convert(DType::kI32, DType::kBool, of_int(4)).i, 1);
}

TEST(Scalar, Functions) {
  const auto call = [](Intrinsic fn, double v) { return unary(fn, DType::kF64, of_float(v)).f; };
  EXPECT_EQ(call(Intrinsic::kRound, 2.5), 2);
  EXPECT_EQ(call(Intrinsic::kRound, 3.5), 4);
  EXPECT_EQ(call(Intrinsic::kTrunc, -2.5), -2);
  EXPECT_EQ(call(Intrinsic::kFloor, -2.5), -3);
  EXPECT_EQ(call(Intrinsic::kCeil, -2.5), -2);
  EXPECT_EQ(call(Intrinsic::kExp, 0), 1);
  EXPECT_EQ(call(Intrinsic::kAbs, -2), 2);
  EXPECT_EQ(unary(Intrinsic::kExp, DType::kF32, of_float(1)).f, static_cast<float>(std::exp(1.0)));
  EXPECT_EQ(unary(Intrinsic::kIsNan, DType::kF32, of_float(kNan)).i, 1);
  EXPECT_EQ(unary(Intrinsic::kIsInf, DType::kF32, of_float(-kInf)).i, 1);
  EXPECT_EQ(unary(Intrinsic::kAbs, DType::kI8, of_int(-128)).i, -128);
  EXPECT_EQ(unary(Intrinsic::kNot, DType::kU8, of_int(1)).i, 254);
  EXPECT_EQ(unary(Intrinsic::kNot, DType::kBool, of_int(1)).i, 0);
  EXPECT_EQ(power(DType::kF32, of_float(2), of_float(10)).f, 1024);
}

TEST(Scalar, FmaRoundsOnce) {
  const double a = 1 + 0x1p-12, c = -1 - 0x1p-11;
  EXPECT_EQ(fused_multiply_add(DType::kF32, of_float(a), of_float(a), of_float(c)).f, 0x1p-24);
  const double product = floats(BinaryOp::kMul, DType::kF32, a, a);
  EXPECT_EQ(floats(BinaryOp::kAdd, DType::kF32, product, c), 0);
}

TEST(Scalar, Bitcast) {
  EXPECT_EQ(bitcast(DType::kF32, DType::kI32, of_float(1)).i, 0x3f800000);
  EXPECT_EQ(bitcast(DType::kI32, DType::kF32, of_int(0x3f800000)).f, 1);
  EXPECT_EQ(bitcast(DType::kF16, DType::kU16, of_float(1)).i, 0x3c00);
  EXPECT_EQ(bitcast(DType::kU16, DType::kBF16, of_int(0x3f80)).f, 1);
  EXPECT_EQ(bitcast(DType::kF64, DType::kI64, of_float(-0.0)).i, kMin64);
  EXPECT_EQ(bitcast(DType::kU8, DType::kI8, of_int(255)).i, -1);
}

// The folder must give what the oracle gives: neither knows the other.
std::vector<std::int64_t> telling_ints(DType t) {
  if (t == DType::kBool) return {0, 1};
  std::vector<std::int64_t> out;
  for (const std::int64_t v : {0, 1, 2, 3, 7, 8, 31, 33, 63, 64, 100, 127, 128, 255})
    out.insert(out.end(), {wrap_int(t, v), wrap_int(t, -v)});
  out.insert(out.end(), {wrap_int(t, kMin64), wrap_int(t, kMin64 >> 32),
                         wrap_int(t, std::numeric_limits<std::int64_t>::max())});
  return out;
}

TEST(Scalar, FoldingIntegersAgrees) {
  for (const DType t : {DType::kBool, DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32,
                        DType::kU32, DType::kI64, DType::kU64}) {
    for (int o = 0; o <= static_cast<int>(BinaryOp::kLe); ++o) {
      const auto op = static_cast<BinaryOp>(o);
      const bool logical = (op >= BinaryOp::kAnd && op <= BinaryOp::kXor) || op >= BinaryOp::kEq;
      if (t == DType::kBool && !logical) continue;
      for (const std::int64_t a : telling_ints(t)) {
        for (const std::int64_t b : telling_ints(t)) {
          EXPECT_EQ(ir::fold_int(op, t, a, b), ints(op, t, a, b))
              << ir::to_text(op) << " " << to_text(t) << " " << a << " " << b;
        }
      }
    }
  }
}

std::vector<double> telling_floats(DType t) {
  std::vector<double> out;
  for (const double v :
       {0.0, 0.1, 0.5,          1.0,    1.5,    2.5,  3.0,  127.5, 128.0, 255.9, 300.0,
        6e4, 7e4, 2147483648.0, 9.3e18, 1.9e19, 1e38, 1e-8, 1e-40, kInf,  kNan})
    out.insert(out.end(), {round_float(t, v), round_float(t, -v)});
  return out;
}

bool same(double x, double y) {
  return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
}

TEST(Scalar, FoldingFloatsAgrees) {
  for (const DType t :
       {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3, DType::kF8E5M2}) {
    for (const double a : telling_floats(t)) {
      for (const double b : telling_floats(t)) {
        for (const BinaryOp op : {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv,
                                  BinaryOp::kMod, BinaryOp::kMin, BinaryOp::kMax}) {
          const double folded = ir::fold_float(op, t, a, b), want = floats(op, t, a, b);
          const bool either_zero = op == BinaryOp::kMin || op == BinaryOp::kMax;
          EXPECT_TRUE(same(folded, want) || (either_zero && folded == 0 && want == 0))
              << ir::to_text(op) << " " << to_text(t) << " " << a << " " << b << ": " << folded
              << " instead of " << want;
        }
        for (const BinaryOp op : {BinaryOp::kEq, BinaryOp::kNe, BinaryOp::kLt, BinaryOp::kLe}) {
          EXPECT_EQ(ir::fold_float_compare(op, a, b) ? 1 : 0,
                    binary(op, t, of_float(a), of_float(b)).i)
              << ir::to_text(op) << " " << to_text(t) << " " << a << " " << b;
        }
      }
    }
  }
}

TEST(Scalar, FoldingConversionsAgrees) {
  const std::vector<DType> integers = {DType::kBool, DType::kI8,  DType::kU8,
                                       DType::kI16,  DType::kU16, DType::kI32,
                                       DType::kU32,  DType::kI64, DType::kU64};
  for (const DType f :
       {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3, DType::kF8E5M2}) {
    for (const DType i : integers) {
      for (const double v : telling_floats(f)) {
        EXPECT_EQ(ir::float_to_int(i, v), convert(f, i, of_float(v)).i)
            << to_text(f) << " to " << to_text(i) << " of " << v;
      }
      for (const std::int64_t v : telling_ints(i)) {
        EXPECT_TRUE(same(ir::int_to_float(f, i, v), convert(i, f, of_int(v)).f))
            << to_text(i) << " to " << to_text(f) << " of " << v;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::interp
