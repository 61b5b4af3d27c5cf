#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

constexpr DType kAll[] = {DType::kBool, DType::kI8,  DType::kU8,  DType::kI16,    DType::kU16,
                          DType::kI32,  DType::kU32, DType::kI64, DType::kU64,    DType::kF16,
                          DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3, DType::kF8E5M2};

class CastTest : public ::testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(CastTest, ToEveryTypeLikeTheInterpreter) {
  const auto [from, lanes] = GetParam();
  const std::int64_t n = 120;
  const ir::Buffer a = ir::Buffer::make("a", from, {n});
  const ir::Expr i = ir::Var::make("i");
  std::vector<Output> outputs;
  for (const DType to : kAll) {
    outputs.push_back({ir::Buffer::make(to_text(to), to, {n}),
                       ir::Cast::make(to, load_vec(a, i * lanes, lanes))});
  }
  expect_like_interp(elementwise({a}, outputs, i, lanes), {edge_values(from, n, 5)});
}

INSTANTIATE_TEST_SUITE_P(AllTypes, CastTest,
                         ::testing::Combine(::testing::ValuesIn(kAll),
                                            ::testing::Values(1, 3, 4, 8)),
                         type_and_lanes);

// Every pattern of a short float as f32 and as the other short floats, and back to bits.
TEST(CastOfShortFloats, EveryPattern) {
  for (const DType from : {DType::kF8E4M3, DType::kF8E5M2, DType::kF16, DType::kBF16}) {
    const DType bits = size_bytes(from) == 1 ? DType::kU8 : DType::kU16;
    const std::int64_t n = std::int64_t{1} << (8 * size_bytes(from));
    HostTensor all(bits, {n});
    for (std::int64_t i = 0; i < n; ++i) all.set_int(i, i);
    const ir::Buffer a = ir::Buffer::make("a", bits, {n});
    const ir::Expr i = ir::Var::make("i");
    const ir::Expr value = ir::Call::make_bitcast(from, load_vec(a, i * 8, 8));
    std::vector<Output> outputs;
    for (const DType to : {DType::kF32, DType::kF8E4M3, DType::kF8E5M2, DType::kF16, DType::kBF16})
      outputs.push_back({ir::Buffer::make(to_text(to), to, {n}), ir::Cast::make(to, value)});
    expect_like_interp(elementwise({a}, outputs, i, 8), {all});
  }
}

// Epilogues of quantised layers end with it: one lane after the other took longer than the layer.
TEST(CastOnX86, FloatsToBytesStayVectors) {
  const ir::Buffer a = ir::Buffer::make("a", DType::kF32, {64});
  const ir::Expr i = ir::Var::make("i");
  for (const DType to : {DType::kI8, DType::kU8, DType::kI16, DType::kU16}) {
    const ir::Buffer out = ir::Buffer::make("out", to, {64});
    const ir::Expr value = ir::Cast::make(to, load_vec(a, i * 16, 16));
    const auto text = emit_asm(elementwise({a}, {{out, value}}, i, 16), avx512_target());
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_EQ(count(*text, "vcvttps2dq"), 1) << *text;
    EXPECT_EQ(count(*text, "vcvttss2si"), 0) << *text;
  }
}

// Of numbers that are rounded before, the conversion rounds; what comes back is only limited.
TEST(CastOnX86, RoundedBytesAreLikeTheInterpreters) {
  constexpr int kLanes = 32;
  const HostTensor edges = edge_values(DType::kF32, 2 * kLanes, 9);
  const std::int64_t n = edges.size() / kLanes * kLanes;
  HostTensor in(DType::kF32, {2 * n});
  for (std::int64_t i = 0; i < n; ++i) {
    in.as<float>()[i] = edges.as<float>()[i];
    in.as<float>()[n + i] = static_cast<float>(i % 600) * 0.5f - 160;  // halves, past both limits
  }
  const ir::Buffer a = ir::Buffer::make("a", DType::kF32, {2 * n});
  const ir::Expr i = ir::Var::make("i");
  std::vector<Output> outputs;
  for (const DType to : {DType::kI8, DType::kU8}) {
    for (const double zero : {0.0, 127.0, -3.0, 0.5}) {
      const ir::Expr offset = ir::Broadcast::make(ir::imm(DType::kF32, zero), kLanes);
      const ir::Expr whole = ir::call(ir::Intrinsic::kRound, {load_vec(a, i * kLanes, kLanes)});
      const ir::Expr byte = ir::cast(to, zero == 0 ? whole : whole + offset);
      const std::string name = fmt::format("o{}", outputs.size());
      outputs.push_back({ir::Buffer::make(name, to, {2 * n}), byte});
      outputs.push_back({ir::Buffer::make(name + "f", DType::kF32, {2 * n}),
                         ir::cast(DType::kF32, byte) - offset});
    }
  }
  expect_like_interp(elementwise({a}, outputs, i, kLanes), {in});
}

// LLVM aligns what it spills in functions with a frame pointer only; elsewhere every vector that it
// spills crosses a line.
TEST(SpillsOnX86, HaveAFramePointer) {
  const ir::Buffer a = ir::Buffer::make("a", DType::kF32, {64});
  const ir::Expr i = ir::Var::make("i");
  const ir::Buffer out = ir::Buffer::make("out", DType::kF32, {64});
  const auto text =
      emit_asm(elementwise({a}, {{out, load_vec(a, i * 16, 16)}}, i, 16), avx512_target());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_GE(count(*text, "movq\t%rsp, %rbp"), 1) << *text;
}

TEST(BitcastTest, KeepsBits) {
  const ir::Buffer a = ir::Buffer::make("a", DType::kF32, {8});
  const ir::Buffer h = ir::Buffer::make("h", DType::kBF16, {8});
  const ir::Expr i = ir::Var::make("i");
  const ir::Func func = elementwise({a, h},
                                    {{ir::Buffer::make("bits", DType::kI32, {8}),
                                      ir::Call::make_bitcast(DType::kI32, load_vec(a, i * 4, 4))},
                                     {ir::Buffer::make("half", DType::kU16, {8}),
                                      ir::Call::make_bitcast(DType::kU16, load_vec(h, i * 4, 4))}},
                                    i, 4);
  expect_like_interp(func, {edge_values(DType::kF32, 8, 6), edge_values(DType::kBF16, 8, 7)});
}

}  // namespace
}  // namespace tessera::codegen
