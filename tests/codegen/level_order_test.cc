#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::For;
using ir::LoopKind;
using ir::Stmt;

constexpr std::int64_t kBlocks = 6;

// Four vectors per iteration: out = (in - 1) * in. `in` may be `out`.
ir::Func four_chains(const Buffer& in, const Buffer& out) {
  const Expr i = ir::Var::make("i");
  const Expr one = ir::Broadcast::make(ir::imm(DType::kF32, 1), 4);
  std::vector<Stmt> stores;
  for (int part = 0; part < 4; ++part) {
    const Expr at = i * 16 + part * 4;
    const Expr x = load_vec(in, at, 4);
    stores.push_back(store_vec(out, at, (x - one) * x));
  }
  std::vector<Buffer> params = {in};
  if (in.get() != out.get()) params.push_back(out);
  return {"chains", params, 1, For::make(i, kBlocks, LoopKind::kSerial, ir::Block::make(stores))};
}

TEST(LevelOrderTest, IndependentChainsStandSideBySide) {
  const Buffer in = Buffer::make("in", DType::kF32, {kBlocks * 16});
  const Buffer out = Buffer::make("out", DType::kF32, {kBlocks * 16});
  const auto text = emit_llvm(four_chains(in, out), aarch64_target());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(count(*text, "load <4 x float>"), 4);
  EXPECT_LT(text->rfind("load <4 x float>"), text->find("store <4 x float>")) << *text;
}

TEST(LevelOrderTest, AccessesOfOneBufferKeepTheirOrder) {
  const Buffer both = Buffer::make("both", DType::kF32, {kBlocks * 16});
  const auto text = emit_llvm(four_chains(both, both), aarch64_target());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_GT(text->rfind("load <4 x float>"), text->find("store <4 x float>")) << *text;
}

TEST(LevelOrderTest, WhatAStoreWroteIsReadAfterIt) {
  const Buffer in = Buffer::make("in", DType::kF32, {64});
  const Buffer mid = Buffer::make("mid", DType::kF32, {64});
  const Buffer out = Buffer::make("out", DType::kF32, {64});
  const Expr i = ir::Var::make("i");
  const auto twice = [](const Expr& x) { return x + x; };
  const Stmt body = ir::Block::make({
      store_vec(mid, i * 4, twice(load_vec(in, i * 4, 4))),
      store_vec(out, i * 4, load_vec(mid, i * 4, 4)),
      store_vec(mid, i * 4, load_vec(in, i * 4, 4)),
  });
  const ir::Func func{"order", {in, mid, out}, 2, For::make(i, 16, LoopKind::kSerial, body)};
  expect_like_interp(func, {edge_values(DType::kF32, 64, 1)});
}

// Eight exponentials per iteration; `in` may be `out`.
ir::Func eight_exponentials(const Buffer& in, const Buffer& out) {
  const Expr i = ir::Var::make("i");
  std::vector<Stmt> stores;
  for (int part = 0; part < 8; ++part) {
    const Expr at = i * 32 + part * 4;
    stores.push_back(
        store_vec(out, at, ir::Call::make(ir::Intrinsic::kExp, {load_vec(in, at, 4)})));
  }
  std::vector<Buffer> params = {in};
  if (in.get() != out.get()) params.push_back(out);
  return {"exps", params, 1, For::make(i, kBlocks, LoopKind::kSerial, ir::Block::make(stores))};
}

TEST(LevelOrderTest, ExponentialsNeitherSpillNorCopyConstants) {
  const Buffer in = Buffer::make("in", DType::kF32, {kBlocks * 32});
  const Buffer out = Buffer::make("out", DType::kF32, {kBlocks * 32});
  const auto text = emit_asm(eight_exponentials(in, out), aarch64_target());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(count(*text, "fmla"), 8 * 9) << *text;
  EXPECT_EQ(count(*text, "mov\tv"), 0) << *text;
  EXPECT_EQ(count(*text, "str\tq"), 8) << *text;
  EXPECT_LT(text->find("fmla"), text->find("str\tq")) << *text;
}

TEST(LevelOrderTest, ExponentialsInPlaceAreThoseOfACopy) {
  const Buffer in = Buffer::make("in", DType::kF32, {kBlocks * 32});
  const Buffer out = Buffer::make("out", DType::kF32, {kBlocks * 32});
  std::vector<float> x, y(kBlocks * 32);
  for (std::size_t k = 0; k < y.size(); ++k) x.push_back(0.3f * static_cast<float>(k) - 40);
  run(eight_exponentials(in, out), {x.data(), y.data()});
  run(eight_exponentials(in, in), {x.data()});
  EXPECT_EQ(x, y);
}

TEST(LevelOrderTest, ExponentialsOfWhatAStoreWroteComeAfterIt) {
  const Buffer in = Buffer::make("in", DType::kF32, {64});
  const Buffer mid = Buffer::make("mid", DType::kF32, {64});
  const Buffer out = Buffer::make("out", DType::kF32, {64});
  const Expr i = ir::Var::make("i");
  const auto exp_of = [&](const Buffer& b) {
    return ir::Call::make(ir::Intrinsic::kExp, {load_vec(b, i * 4, 4)});
  };
  const Stmt body = ir::Block::make({
      store_vec(mid, i * 4, exp_of(in)),
      store_vec(out, i * 4, load_vec(mid, i * 4, 4)),
      store_vec(mid, i * 4, load_vec(in, i * 4, 4)),
  });
  std::vector<float> x, mids(64, 7), outs(64), wanted(64);
  for (int k = 0; k < 64; ++k) x.push_back(0.1f * static_cast<float>(k) - 3);
  run({"order", {in, mid, out}, 2, For::make(i, 16, LoopKind::kSerial, body)},
      {x.data(), mids.data(), outs.data()});
  run({"plain",
       {in, out},
       1,
       For::make(i, 16, LoopKind::kSerial, store_vec(out, i * 4, exp_of(in)))},
      {x.data(), wanted.data()});
  EXPECT_EQ(outs, wanted);
  EXPECT_EQ(mids, x);
}

}  // namespace
}  // namespace tessera::codegen
