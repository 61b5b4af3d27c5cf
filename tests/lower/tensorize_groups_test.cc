// Products of warp groups (wgmma): that they compute what the Dag means, and what is refused.
#include <gtest/gtest.h>

#include "schedule_case.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/text.h"
#include "tessera/scheduling/lower/check_limits.h"
#include "tessera/scheduling/lower/swizzle_tiles.h"
#include "tests/testing/testing.h"
#include "thread_case.h"

namespace tessera::lower {
namespace {

struct GroupCase {
  std::string left = "A", right = "B", sums = "C", out = "out";
  int row_groups = 1, row_tiles = 1, column_groups = 1, columns = 64;
  int places = 4;
  bool pieces = false;                              // products end with their iteration
  bool left_columns = false, right_columns = true;  // the elements of a sum are not side by side
  std::string instruction = "wgmma";
  int depth = 64;
};

std::string group_schedule(const GroupCase& c) {
  std::string text = c.sums == "C.local" ? "cache_write C local\n" : "";
  for (const std::string& x : {c.left, c.right})
    text += fmt::format("cache_read {} shared {}\n", x, c.sums);
  text += fmt::format(
      "split {0} i {1} {2} 4 2 8\n"
      "split {0} j {3} {4} 4 2\n"
      "reorder {0} i.0 j.0 i.1 j.1 i.3 i.5 j.3 i.2 i.4 j.2 j.4\n"
      "fuse {0} i.1 j.1\n"
      "fuse {0} i.3 i.5 j.3\n"
      "annotate {0} i.0 blockIdx.y\n"
      "annotate {0} j.0 blockIdx.x\n"
      "annotate {0} i.1@j.1 threadIdx.y\n"
      "annotate {0} i.3@i.5@j.3 threadIdx.x\n"
      "annotate {0} i.2 unroll\n"
      "annotate {0} i.4 unroll\n"
      "annotate {0} j.2 unroll\n"
      "annotate {0} j.4 vectorize\n",
      c.out, c.row_groups, c.row_tiles, c.column_groups, c.columns / 8);
  text += fmt::format(
      "compute_at {0} {1} i.1@j.1\n"
      "split {0} k {4}\n"
      "split {0} i 64\n"
      "split {0} j {2}\n"
      "reorder {0} k.0 i.0 j.0 i.1 j.1 k.1\n"
      "annotate {0} i.0 unroll\n"
      "annotate {0} j.0 unroll\n"
      "tensorize {0} i.1 {3}\n",
      c.sums, c.out, c.columns, c.instruction, c.depth);
  if (c.places > 0) {
    text += fmt::format("pragma {} k.0 {} {}\n", c.sums, c.pieces ? "pipeline_pieces" : "pipeline",
                        c.places);
  }
  for (const bool left : {true, false}) {
    const std::string& x = left ? c.left : c.right;
    text += fmt::format("compute_at {}.shared {} k.0\n", x, c.sums);
    if (left ? c.left_columns : c.right_columns)
      text += fmt::format("layout {}.shared d1/64 d0 d1%64\n", x);
    text += fmt::format(
        "fuse {0}.shared d0 d1\n"
        "split {0}.shared d0@d1 {1} 128 {2}\n"
        "annotate {0}.shared d0@d1.1 threadIdx.y\n"
        "annotate {0}.shared d0@d1.2 threadIdx.x\n"
        "annotate {0}.shared d0@d1.3 vectorize\n",
        x, c.row_groups * c.column_groups, c.depth / 8);
  }
  return text;
}

TEST(TensorizeGroups, LoopsBecomeProductsOfAGroup) {
  testing::expect_golden(
      "lower/tensorize/wgmma.txt",
      ir::to_text(lower_threads(dag_of("matmul:M=64,N=16,K=256,dtype=f16"),
                                group_schedule({.columns = 16, .right_columns = true}))));
}

TEST(TensorizeGroups, WholeTiles) {
  expect_threads_agree(dag_of("matmul:M=64,N=64,K=192,dtype=f16"), group_schedule({}));
  expect_threads_agree(dag_of("matmul:M=64,N=128,K=128,dtype=bf16"),
                       group_schedule({.columns = 128}));
}

TEST(TensorizeGroups, SeveralGroupsAndTiles) {
  expect_threads_agree(dag_of("matmul:M=128,N=128,K=128,dtype=f16"),
                       group_schedule({.row_groups = 2, .columns = 128}));
  expect_threads_agree(dag_of("matmul:M=64,N=128,K=128,dtype=f16"),
                       group_schedule({.column_groups = 2}));
  expect_threads_agree(dag_of("matmul:M=128,N=32,K=256,TB=1,dtype=f16"),
                       group_schedule({.row_tiles = 2, .columns = 32, .right_columns = false}));
}

TEST(TensorizeGroups, OperandsOfEveryOrder) {
  expect_threads_agree(dag_of("matmul:M=64,N=64,K=128,TB=1,dtype=f16"),
                       group_schedule({.right_columns = false}));
  expect_threads_agree(dag_of("matmul:M=128,N=64,K=128,TA=1,dtype=f16"),
                       group_schedule({.row_groups = 2, .left_columns = true}));
  expect_threads_agree(dag_of("matmul:M=64,N=64,K=128,TA=1,TB=1,dtype=bf16"),
                       group_schedule({.left_columns = true, .right_columns = false}));
}

TEST(TensorizeGroups, OddSizesAddZeros) {
  expect_threads_agree(dag_of("matmul:M=70,N=72,K=136,dtype=f16"), group_schedule({}));
  expect_threads_agree(dag_of("matmul:M=37,N=45,K=83,TB=1,dtype=f16"),
                       group_schedule({.right_columns = false}));
}

GroupCase of_type(const char* instruction, int depth) {
  return {.sums = "C.local",
          .out = "C",
          .right_columns = false,
          .instruction = instruction,
          .depth = depth};
}

// Sums of bytes are exact.
TEST(TensorizeGroups, Bytes) {
  GroupCase c = of_type("wgmma_i8", 128);
  expect_threads_agree(dag_of("matmul:M=64,N=64,K=384,TB=1,dtype=i8"), group_schedule(c));
  expect_threads_agree(dag_of("matmul:M=70,N=40,K=272,TB=1,dtype=u8"), group_schedule(c));
  c.columns = 40;
  expect_threads_refused(dag_of("matmul:M=64,N=40,K=256,TB=1,dtype=i8"), group_schedule(c),
                         "the loops of wgmma_i8 must be 64, a multiple of 16 up to 256, 128");
  c.columns = 64;
  c.right_columns = true;
  expect_threads_refused(dag_of("matmul:M=64,N=64,K=256,dtype=i8"), group_schedule(c),
                         "B.shared does not lie in rows of 128 elements");
}

// What tf32 does not hold is dropped, not rounded.
TEST(TensorizeGroups, SinglesAreCutToTf32) {
  const te::Dag dag = dag_of("matmul:M=64,N=64,K=100,TB=1");
  const ir::DeviceProgram program = lower_threads(dag, group_schedule(of_type("wgmma_tf32", 32)));
  Rng rng(3);
  std::vector<HostTensor> inputs;
  for (const te::Input& in : dag.inputs) {
    inputs.push_back(random_tensor(in.buffer->dtype, in.buffer->shape, rng));
    HostTensor& t = inputs.back();
    for (std::int64_t i = 0; i < t.size(); ++i)
      t.set_float(i, std::round(t.get_float(i) * 64) / 64);
  }
  EXPECT_EQ(run_threads(dag, program, inputs, 1e-6), "");
  inputs[0].set_float(0, 1 + 1.0 / 1024 + 1.0 / 4096);
  EXPECT_NE(run_threads(dag, program, inputs, 1e-6), "");
}

TEST(TensorizeGroups, AnyNumberOfPlaces) {
  for (const int places : {3, 5}) {
    expect_threads_agree(dag_of("matmul:M=64,N=32,K=448,dtype=f16"),
                         group_schedule({.columns = 32, .places = places}));
  }
}

TEST(TensorizeGroups, PiecesWaitForTheirProductsAndNoCopy) {
  const te::Dag dag = dag_of("matmul:M=64,N=32,K=256,dtype=f16");
  for (const int places : {2, 3}) {
    const GroupCase c{.columns = 32, .places = places, .pieces = true};
    expect_threads_agree(dag, group_schedule(c));
    const std::string text = ir::to_text(lower_threads(dag, group_schedule(c)));
    EXPECT_NE(text.find("eval products_wait()"), std::string::npos) << text;
    EXPECT_NE(text.find("C.piece"), std::string::npos) << text;
  }
  const std::string whole = ir::to_text(lower_threads(dag, group_schedule({.columns = 32})));
  EXPECT_EQ(whole.find("C.piece"), std::string::npos) << whole;
  EXPECT_EQ(whole.find("products_wait"), std::string::npos) << whole;
}

TEST(TensorizeGroups, BiasAndActivationAreAppliedToWhatAThreadHolds) {
  expect_threads_agree(
      dag_of("dense:M=64,N=64,K=128,dtype=f16"),
      group_schedule({.left = "X", .right = "W", .out = "Y", .right_columns = false}));
}

TEST(TensorizeGroups, ChunksOfARowTradePlaces) {
  EXPECT_EQ(ir::swizzled(DType::kF16, 0), 0);
  EXPECT_EQ(ir::swizzled(DType::kF16, 64), 64 + 8);
  EXPECT_EQ(ir::swizzled(DType::kF16, 64 + 8 + 3), 64 + 3);
  EXPECT_EQ(ir::swizzled(DType::kF16, 7 * 64 + 56), 7 * 64);
  EXPECT_EQ(ir::swizzled(DType::kF16, 8 * 64 + 56), 8 * 64 + 56);
  EXPECT_EQ(ir::swizzled(DType::kF32, 32 + 4 + 3), 32 + 3);
  EXPECT_EQ(ir::swizzled(DType::kU8, 7 * 128 + 112 + 5), 7 * 128 + 5);
}

TEST(TensorizeGroups, WhatIsNoProductOfAGroupIsRefused) {
  const te::Dag dag = dag_of("matmul:M=64,N=64,K=128,dtype=f16");
  expect_threads_refused(dag, group_schedule({.columns = 64, .places = 0}),
                         "products of warp groups (C) must be in a pipelined loop");
  expect_threads_refused(dag, group_schedule({.places = 2}),
                         "products of warp groups need 3 places");
  expect_threads_refused(dag_of("matmul:M=64,N=128,K=128,dtype=f16"),
                         group_schedule({.columns = 128, .right_columns = false}),
                         "B.shared does not lie in rows of 64 elements");
  std::string text = group_schedule({});
  text.replace(text.find("split C k 64"), 12, "split C k 32");
  expect_threads_refused(dag, text, "the loops of wgmma must be 64, a multiple of 8 up to 256, 64");
  text = group_schedule({});
  const std::string copy = "split A.shared d0@d1 1 128 8";
  text.replace(text.find(copy), copy.size(), "split A.shared d0@d1 1 256 8");
  expect_threads_refused(dag, text, "must have 128 threads in x, not 256");
}

TEST(TensorizeGroups, VectorsOfTilesArePartsOfChunks) {
  const ir::Buffer tile = ir::Buffer::make("S", DType::kF16, {4096}, ir::Scope::kShared);
  const ir::Buffer sums = ir::Buffer::make("C", DType::kF32, {32}, ir::Scope::kStack);
  const ir::Expr place =
      ir::call(ir::Intrinsic::kMatrixRows, {ir::Load::make(tile, {ir::int_imm(0)})});
  const ir::Expr all = ir::Ramp::make(ir::int_imm(0), 1, 32);
  const ir::Stmt product = ir::Store::make(
      sums, {all}, ir::call(ir::Intrinsic::kMma, {ir::Load::make(sums, {all}), place, place}));
  const ir::Expr x = ir::Var::make("x");
  const auto swizzle = [&](const ir::Expr& first) {
    Result<void> result;
    swizzle_tiles(ir::Block::make({ir::Store::make(tile, {ir::Ramp::make(first, 1, 8)},
                                                   ir::zero({DType::kF16, 8})),
                                   product}),
                  &result);
    return result.ok() ? std::string() : result.error().message;
  };
  EXPECT_EQ(swizzle(x * 8), "");
  EXPECT_EQ(swizzle(x * 4),
            "S is multiplied by warp groups: vectors of it must be parts of chunks of 8 elements");
}

TEST(TensorizeGroups, OtherGenerationsHaveNone) {
  const ir::DeviceProgram program =
      lower_threads(dag_of("matmul:M=64,N=64,K=128,dtype=f16"), group_schedule({}));
  EXPECT_TRUE(check_limits(program, launch_limits(*target::find_target("h100"))).ok());
  EXPECT_FALSE(check_limits(program, launch_limits(*target::find_target("opencl-1.2"))).ok());
  for (const char* name : {"a100", "rtx4090"}) {
    const auto refused = check_limits(program, launch_limits(*target::find_target(name)));
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_NE(refused.error().message.find("products of 64 x 256 x 16 in f16"), std::string::npos)
        << refused.error().message;
  }
}

}  // namespace
}  // namespace tessera::lower
