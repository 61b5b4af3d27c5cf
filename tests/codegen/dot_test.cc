#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Intrinsic;

// out[0 .. lanes) = fn(acc, a, b) with `group` operand elements per accumulator.
ir::Func dot_func(Intrinsic fn, DType acc_type, DType ta, DType tb, int lanes, int group) {
  const ir::Buffer acc = ir::Buffer::make("acc", acc_type, {lanes});
  const ir::Buffer a = ir::Buffer::make("a", ta, {lanes * group});
  const ir::Buffer b = ir::Buffer::make("b", tb, {lanes * group});
  const ir::Buffer out = ir::Buffer::make("out", acc_type, {lanes});
  const ir::Expr zero = ir::int_imm(0);
  const ir::Expr value =
      ir::Call::make(fn, {load_vec(acc, zero, lanes), load_vec(a, zero, lanes * group),
                          load_vec(b, zero, lanes * group)});
  return {"dot", {acc, a, b, out}, 1, store_vec(out, zero, value)};
}

HostTensor any_bytes(DType t, std::int64_t n, std::uint64_t seed) {
  HostTensor out(t, {n});
  Rng rng(seed);
  for (std::int64_t i = 0; i < n; ++i) out.set_int(i, rng.below(256));
  return out;
}

TEST(DotTest, Dot4WithEverySignAndLength) {
  for (const DType ta : {DType::kI8, DType::kU8}) {
    for (const DType tb : {DType::kI8, DType::kU8}) {
      for (const int lanes : {1, 2, 3, 4, 8, 12, 16}) {
        SCOPED_TRACE(std::string(to_text(ta)) + to_text(tb) + std::to_string(lanes));
        expect_like_interp(dot_func(Intrinsic::kDot4, DType::kI32, ta, tb, lanes, 4),
                           {edge_values(DType::kI32, lanes, 1), any_bytes(ta, 4 * lanes, 2),
                            any_bytes(tb, 4 * lanes, 3)});
      }
    }
  }
}

TEST(DotTest, Mma2x8WithEverySign) {
  for (const DType ta : {DType::kI8, DType::kU8}) {
    for (const DType tb : {DType::kI8, DType::kU8}) {
      expect_like_interp(
          dot_func(Intrinsic::kMma2x8, DType::kI32, ta, tb, 4, 4),
          {edge_values(DType::kI32, 4, 1), any_bytes(ta, 16, 2), any_bytes(tb, 16, 3)});
    }
  }
}

TEST(DotTest, Bf16) {
  Rng rng(4);
  for (const int lanes : {1, 2, 3, 4, 8, 12}) {
    // bfdot rounds products and sums in its own way: a few units of f32.
    expect_like_interp(
        dot_func(Intrinsic::kDot2, DType::kF32, DType::kBF16, DType::kBF16, lanes, 2),
        {random_tensor(DType::kF32, {lanes}, rng), random_tensor(DType::kBF16, {2 * lanes}, rng),
         random_tensor(DType::kBF16, {2 * lanes}, rng)},
        1e-6);
  }
  expect_like_interp(dot_func(Intrinsic::kMma2x4, DType::kF32, DType::kBF16, DType::kBF16, 4, 2),
                     {random_tensor(DType::kF32, {4}, rng), random_tensor(DType::kBF16, {8}, rng),
                      random_tensor(DType::kBF16, {8}, rng)},
                     1e-6);
}

TEST(DotTest, InstructionsOfTheTarget) {
  const auto asm_of = [](Intrinsic fn, DType acc, DType ta, DType tb, int lanes, int group,
                         const target::Target& t) {
    const auto text = emit_asm(dot_func(fn, acc, ta, tb, lanes, group), t);
    return text.ok() ? *text : text.error().message;
  };
  const DType i32 = DType::kI32, i8 = DType::kI8, u8 = DType::kU8, bf = DType::kBF16,
              f32 = DType::kF32;
  const target::Target arm = aarch64_target();
  EXPECT_EQ(count(asm_of(Intrinsic::kDot4, i32, i8, i8, 16, 4, arm), "sdot\t"), 4);
  EXPECT_EQ(count(asm_of(Intrinsic::kDot4, i32, u8, u8, 4, 4, arm), "udot\t"), 1);
  EXPECT_EQ(count(asm_of(Intrinsic::kDot4, i32, i8, u8, 4, 4, arm), "usdot\t"), 1);
  EXPECT_EQ(count(asm_of(Intrinsic::kMma2x8, i32, i8, i8, 4, 4, arm), "smmla\t"), 1);
  EXPECT_EQ(count(asm_of(Intrinsic::kMma2x8, i32, u8, u8, 4, 4, arm), "ummla\t"), 1);
  EXPECT_EQ(count(asm_of(Intrinsic::kDot2, f32, bf, bf, 4, 2, arm), "bfdot\t"), 1);
  EXPECT_EQ(count(asm_of(Intrinsic::kMma2x4, f32, bf, bf, 4, 2, arm), "bfmmla\t"), 1);
  EXPECT_EQ(count(asm_of(Intrinsic::kDot4, i32, u8, i8, 16, 4, avx512_target()), "vpdpbusd\t"), 1);
  EXPECT_EQ(count(asm_of(Intrinsic::kDot4, i32, i8, u8, 16, 4, avx512_target()), "vpdpbusd\t"), 1);
  EXPECT_EQ(count(asm_of(Intrinsic::kDot4, i32, i8, i8, 16, 4, avx512_target()), "vpdpbusd\t"), 2);
}

}  // namespace
}  // namespace tessera::codegen
