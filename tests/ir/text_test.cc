#include "tessera/lang/ir/text.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/verify.h"
#include "tests/ir/random_func.h"
#include "tests/testing/testing.h"

namespace tessera::ir {
namespace {

Func matmul() {
  const Buffer a = Buffer::make("A", DType::kF32, {64, 32});
  const Buffer b = Buffer::make("B", DType::kF32, {32, 48});
  const Buffer c = Buffer::make("C", DType::kF32, {64, 48});
  const Buffer acc = Buffer::make("acc", DType::kF32, {1}, Scope::kStack);
  const Expr i = Var::make("i"), j = Var::make("j"), k = Var::make("k");
  const Expr zero_index = int_imm(0);
  Stmt update = Store::make(
      acc, {zero_index},
      add(Load::make(acc, {zero_index}), mul(Load::make(a, {i, k}), Load::make(b, {k, j}))));
  Stmt body = Block::make(
      {Store::make(acc, {zero_index}, zero({DType::kF32, 1})),
       For::make(k, 32, LoopKind::kSerial, update),
       If::make(lt(i, int_imm(60)), Store::make(c, {i, j}, Load::make(acc, {zero_index})))});
  return {"matmul",
          {a, b, c},
          1,
          For::make(i, 64, LoopKind::kParallel,
                    For::make(j, 48, LoopKind::kSerial, Allocate::make(acc, body)))};
}

TEST(Text, PrintsMatmul) { tessera::testing::expect_golden("ir/matmul.txt", to_text(matmul())); }

TEST(Text, RandomFunctionsRoundTrip) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    const Func f = random_func(rng);
    const std::string text = to_text(f);
    const auto parsed = parse_func(text);
    ASSERT_TRUE(parsed.ok()) << "seed " << seed << ": " << parsed.error().message << "\n" << text;
    ASSERT_TRUE(equal(f, *parsed)) << "seed " << seed << "\n" << text << to_text(*parsed);
    ASSERT_EQ(to_text(*parsed), text) << "seed " << seed;
    const auto verified = verify(f);
    ASSERT_TRUE(verified.ok()) << "seed " << seed << ": " << verified.error().message << "\n"
                               << text;
  }
}

TEST(Text, PrintsMinimalParentheses) {
  const Expr a = Var::make("a"), b = Var::make("b"), c = Var::make("c");
  EXPECT_EQ(to_text(add(mul(a, b), c)), "a * b + c");
  EXPECT_EQ(to_text(mul(add(a, b), c)), "(a + b) * c");
  EXPECT_EQ(to_text(sub(sub(a, b), c)), "a - b - c");
  EXPECT_EQ(to_text(sub(a, sub(b, c))), "a - (b - c)");
  EXPECT_EQ(to_text(floor_mod(floor_div(a, b), c)), "a // b %% c");
  EXPECT_EQ(to_text(div(mod(a, b), c)), "a % b / c");
  EXPECT_EQ(to_text(logical_and(lt(a, b), le(b, c))), "a < b & b <= c");
  EXPECT_EQ(to_text(eq(lt(a, b), lt(b, c))), "(a < b) == (b < c)");
  EXPECT_EQ(to_text(add(a, int_imm(-5))), "a + -5");
  EXPECT_EQ(to_text(min(a, add(b, c))), "min(a, b + c)");
}

TEST(Text, PrintsTypedConstants) {
  EXPECT_EQ(to_text(imm(DType::kF32, 1)), "1.0");
  EXPECT_EQ(to_text(imm(DType::kF32, 0.1)), "0.1");
  EXPECT_EQ(to_text(imm(DType::kF64, 0.1)), "0.1f64");
  EXPECT_EQ(to_text(imm(DType::kF32, -0.0)), "-0.0");
  EXPECT_EQ(to_text(imm(DType::kF32, -INFINITY)), "-inf");
  EXPECT_EQ(to_text(imm(DType::kBF16, INFINITY)), "bf16.inf");
  EXPECT_EQ(to_text(imm(DType::kF16, NAN)), "f16.nan");
  EXPECT_EQ(to_text(imm(DType::kU8, 200)), "200u8");
  EXPECT_EQ(to_text(IntImm::make(DType::kU64, -1)), "18446744073709551615u64");
  EXPECT_EQ(to_text(int_imm(std::numeric_limits<std::int64_t>::min())), "-9223372036854775808");
  EXPECT_EQ(to_text(bool_imm(true)), "true");
}

TEST(Text, EveryHalfConstantRoundTrips) {
  const Buffer out = Buffer::make("out", DType::kF16, {});
  for (std::uint32_t bits = 0; bits < 0x10000; bits += 7) {
    const Func f{
        "f",
        {out},
        1,
        Store::make(out, {},
                    FloatImm::make(DType::kF16, f16_to_f32(static_cast<std::uint16_t>(bits))))};
    const auto parsed = parse_func(to_text(f));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    ASSERT_TRUE(equal(f, *parsed)) << bits;
  }
}

TEST(Text, SameHintGetsSuffixOnlyWhileBothAreInScope) {
  const Buffer out = Buffer::make("out", DType::kI64, {8, 8});
  const Expr i = Var::make("i"), other = Var::make("i");
  const Stmt nest = For::make(
      i, 8, LoopKind::kSerial,
      For::make(other, 8, LoopKind::kUnrolled, Store::make(out, {i, other}, add(i, other))));
  const Stmt alone =
      For::make(other, 8, LoopKind::kSerial, Store::make(out, {other, other}, other));
  EXPECT_EQ(to_text(Block::make({nest, alone})),
            "for i in 8 {\n"
            "  unroll i_1 in 8 {\n"
            "    out[i, i_1] = i + i_1\n"
            "  }\n"
            "}\n"
            "for i in 8 {\n"
            "  out[i, i] = i\n"
            "}\n");
}

TEST(Text, ParsesCommentsAndGreaterThan) {
  const auto f = parse_func(
      "func f(A: f32[4]) -> (B: bool[4]) { # copy\n  for i in 4 { B[i] = A[i] > 0.5 }\n}");
  ASSERT_TRUE(f.ok()) << f.error().message;
  EXPECT_NE(to_text(*f).find("B[i] = 0.5 < A[i]"), std::string::npos) << to_text(*f);
}

struct BadText {
  const char* body;
  const char* message;
};

class ParseErrors : public ::testing::TestWithParam<BadText> {};

TEST_P(ParseErrors, NamesPlaceAndReason) {
  const auto f =
      parse_func(std::string("func f(A: f32[4]) -> (B: f32[4, 4]) {\n") + GetParam().body + "\n}");
  ASSERT_FALSE(f.ok());
  EXPECT_EQ(f.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.error().message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseErrors,
    ::testing::Values(
        BadText{"B[0, 0] = 1.0 +", "line 3, column 1: expected an expression, found '}'"},
        BadText{"B[0, 0] = x",
                "line 2, column 11: expected the name of a buffer in scope, found 'x'"},
        BadText{"B[0] = 1.0", "line 2, column 1: store to B: one index per dimension is needed"},
        BadText{"B[0, 0] = 1", "line 2, column 1: store of i64 to B of f32"},
        BadText{"B[0, 0] = A[1.0]", "line 2, column 11: load of A: index is not i64"},
        BadText{"B[0, 0] = A[0] * 2", "line 2, column 16: f32 * i64: operands differ in type"},
        BadText{"B[0, 0] = A[0] // 2.0",
                "line 2, column 16: f32 // f32: operation is for integers only"},
        BadText{"B[0, 0] = select(1, 2.0, 3.0)",
                "line 2, column 11: select needs a bool condition"},
        BadText{"B[0, 0] = exp(1.0, 2.0)", "line 2, column 11: exp: wrong number of arguments"},
        BadText{"B[0, 0] = dot4(1.0, 1, 1)",
                "line 2, column 11: dot4: accumulator has the wrong type"},
        BadText{"B[0, 0] = min(1.0)", "line 2, column 11: min: wrong number of arguments"},
        BadText{"B[0, 0] = cast<f31>(1)",
                "line 2, column 16: expected an element type, found 'f31'"},
        BadText{"B[0, 0] = bitcast<f32>(1)", "line 2, column 18: bitcast between different sizes"},
        BadText{"B[0, 0] = shuffle(A[ramp(0, 1, 2)], [2])",
                "line 2, column 11: shuffle picks a lane that does not exist"},
        BadText{"B[0, 0] = broadcast(1.0, 1)", "line 2, column 26: integer out of range"},
        BadText{"B[0, 0] = ramp(1.0, 1, 4)", "line 2, column 11: ramp needs a scalar i64 base"},
        BadText{"B[0, 0] = 1e999", "line 2, column 11: constant out of range"},
        BadText{"B[300i8, 0] = 1.0", "line 2, column 3: constant does not fit i8"},
        BadText{"B[9223372036854775808, 0] = 1.0", "line 2, column 3: constant does not fit i64"},
        BadText{"B[1i77, 0] = 1.0", "line 2, column 3: unknown type suffix"},
        BadText{"B[1.5i8, 0] = 1.0", "line 2, column 3: integer constant with a fraction"},
        BadText{"for for in 4 { }",
                "line 2, column 5: expected a name that is not reserved, found 'for'"},
        BadText{"for i in 4.0 { }", "line 2, column 10: the extent of a loop is a scalar i64"},
        BadText{"if 1 { }", "line 2, column 4: the condition of an if is a scalar bool"},
        BadText{"alloc t: f32[4] { }",
                "line 2, column 7: an allocation names its scope: heap, stack or shared"},
        BadText{"alloc t: f32[-1] heap { }", "line 2, column 14: integer out of range"},
        BadText{"alloc t: f32[99999999, 99999999] heap { }",
                "line 2, column 7: shape 99999999x99999999: too large"},
        BadText{"B[0, 0] = @", "line 2, column 11: unexpected character '@'"},
        BadText{"\"", "line 2, column 1: string does not end"},
        BadText{"} x", "line 2, column 3: expected the end, found 'x'"}));

TEST(Text, RefusesDeepNesting) {
  const std::string deep(100000, '(');
  const auto f = parse_func("func f() -> (B: f32[]) { B[] = " + deep);
  ASSERT_FALSE(f.ok());
  EXPECT_NE(f.error().message.find("expression too large"), std::string::npos) << f.error().message;
}

TEST(Text, TruncatedTextIsAnError) {
  const std::string text = to_text(matmul());
  const std::size_t end = text.rfind('}');
  for (std::size_t n = 0; n < end; ++n) EXPECT_FALSE(parse_func(text.substr(0, n)).ok()) << n;
}

}  // namespace
}  // namespace tessera::ir
