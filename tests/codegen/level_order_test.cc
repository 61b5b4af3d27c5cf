#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tessera/ir/build.h"

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

}  // namespace
}  // namespace tessera::codegen
