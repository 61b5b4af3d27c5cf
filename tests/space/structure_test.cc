// What is recognised in an expression, and what is chosen by it.
#include <gtest/gtest.h>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/lang/te/builder.h"
#include "tessera/scheduling/lower/lower.h"
#include "tessera/scheduling/space/analysis.h"
#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/scheduling/space/inlining.h"
#include "tessera/scheduling/space/tile.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

Analysis analysis_of(const std::string& spec) {
  const te::Dag dag = dag_of(spec);
  return analyse(dag, dag.ops);
}

TEST(Structure, StridesOfAConvolution) {
  const Analysis a = analysis_of("conv2d:N=1,H=9,W=11,CI=5,CO=19,KH=3,KW=3,S=2");
  const Stage& conv = a.stages.at(0);
  ASSERT_EQ(conv.reads.size(), 2u);
  // Axes n, oh, ow, co | kh, kw, ci of X[1, 9, 11, 5].
  EXPECT_EQ(conv.reads[0].strides, (std::vector<std::int64_t>{495, 110, 10, 0, 55, 5, 1}));
  EXPECT_TRUE(conv.reads[0].regular());
  EXPECT_TRUE(a.constant(conv.reads[1].buffer));
}

TEST(Structure, RolesOfTheAxesOfAConvolution) {
  const Analysis a = analysis_of("conv2d:N=2,H=9,W=11,CI=5,CO=19,KH=3,KW=3");
  const auto c = match_contraction(a, 0, 3);
  ASSERT_TRUE(c.has_value());
  EXPECT_EQ(c->row, 2);
  EXPECT_EQ(c->rows, (std::vector<std::size_t>{0, 1}));
  EXPECT_TRUE(c->batch.empty());
  EXPECT_EQ(c->reduce, (std::vector<std::size_t>{4, 5, 6}));
}

TEST(Structure, RolesOfTheAxesOfABatchedProduct) {
  const Analysis a = analysis_of("bmm:B=3,M=11,N=17,K=13");
  const auto c = match_contraction(a, 0, 2);
  ASSERT_TRUE(c.has_value());
  EXPECT_EQ(c->batch, (std::vector<std::size_t>{0}));
  EXPECT_EQ(c->row, 1);
}

TEST(Structure, DepthwiseIsNoContraction) {
  const Analysis a = analysis_of("depthwise:N=1,H=9,W=11,C=13,KH=3,KW=3");
  EXPECT_TRUE(is_lanewise(a.stages.at(0)));
  EXPECT_FALSE(is_contraction(a.stages.at(0)));
}

TEST(Structure, WhatIsInlined) {
  const auto inlined = [](const std::string& spec) { return choose_inlined(analysis_of(spec)); };
  using Names = std::vector<std::string>;
  // The exponential is used twice: kept. Padding of a convolution is copied, of a pool cut off.
  EXPECT_EQ(inlined("softmax:R=7,C=37"), Names{});
  EXPECT_EQ(inlined("conv2d:N=1,H=9,W=11,CI=5,CO=19,KH=3,KW=3,P=1"), Names{});
  EXPECT_EQ(inlined("maxpool2d:N=1,H=9,W=11,C=19,KH=3,KW=3,P=1"), Names{"pad"});
  EXPECT_EQ(inlined("depthwise:N=1,H=9,W=11,C=13,KH=3,KW=3,P=1"), Names{"pad"});
  EXPECT_EQ(inlined("eltwise:N=37,fn=mul+add+relu"), (Names{"e1", "e0"}));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// An image that becomes bytes with its channels last: vectors of them would have three lanes.
TEST(Structure, FewChannelsAreComputedAlongTheImage) {
  const auto dag = [](std::int64_t channels) {
    te::DagBuilder b("q");
    const ir::Buffer x = b.input("X", DType::kF32, {channels, 5, 37});
    return b.build(
        {b.compute("Y", {{"h", 5}, {"w", 37}, {"c", channels}}, [&](const te::Indices& i) {
          return ir::cast(DType::kU8, te::at(x, {i[2], i[0], i[1]}) * ir::imm(DType::kF32, 9));
        })});
  };
  EXPECT_TRUE(contains(schedule_text(dag(3)), "annotate Y w.1 vectorize"));
  EXPECT_FALSE(contains(schedule_text(dag(8)), "annotate Y w.1 vectorize"));
  expect_correct(dag(3));
}

// Bytes that a window reads become numbers less a zero point on the way, or are stored as such.
TEST(Structure, WindowsOfBytesMakeThemWider) {
  const auto dag = [](DType stored) {
    te::DagBuilder b("w");
    const ir::Buffer x = b.input("X", stored, {9, 11, 19}),
                     w = b.constant("W", DType::kF32, {3, 19});
    const ir::Buffer less =
        b.compute("less", {{"h", 9}, {"x", 11}, {"c", 19}}, [&](const te::Indices& i) {
          return ir::cast(DType::kF32, te::at(x, i)) - ir::imm(DType::kF32, 3);
        });
    return b.build(
        {b.reduce("Y", te::Reducer::kSum, {{"h", 9}, {"x", 9}, {"c", 19}}, {{"k", 3}},
                  [&](const te::Indices& i, const te::Indices& r) {
                    return te::at(less, {i[0], i[1] + r[0], i[2]}) * te::at(w, {r[0], i[2]});
                  })});
  };
  EXPECT_TRUE(contains(schedule_text(dag(DType::kU8)), "compute_inline less"));
  EXPECT_FALSE(contains(schedule_text(dag(DType::kF32)), "compute_inline less"));
  expect_correct(dag(DType::kU8));
}

TEST(Structure, PaddingOfDepthwiseIsCutOffLoopsOrCopied) {
  const std::string wide = schedule_text(dag_of("depthwise:N=1,H=28,W=28,C=96,KH=5,KW=5,P=2"));
  EXPECT_TRUE(contains(wide, "compute_inline pad"));
  const std::string small = schedule_text(dag_of("depthwise:N=1,H=7,W=7,C=576,KH=5,KW=5,P=2"));
  EXPECT_FALSE(contains(small, "compute_inline pad"));
  EXPECT_TRUE(contains(small, "reorder Y c.0 n oh.0 ow.0"));
}

// A vector of the epilogue that crosses the end of a part would make the product compute more than
// its part, across blocks of its packed weights.
TEST(Structure, VectorsOfAnEpilogueEndWithThePart) {
  const target::Target target = target::find_target("sapphirerapids").value();
  const std::string text = schedule_text(dag_of("dense:M=4,N=512,K=4608"), target);
  EXPECT_TRUE(contains(text, "split Y j 96 tail=peel\nsplit Y j.1 48 tail=peel")) << text;
  EXPECT_TRUE(contains(text, "compute_at C Y j.0\n")) << text;
}

te::Dag concatenation(std::int64_t first, std::int64_t second) {
  te::DagBuilder b("concat");
  const ir::Buffer x = b.input("X", DType::kF32, {5, first});
  const ir::Buffer y = b.input("Y", DType::kF32, {5, second});
  return b.build({b.compute("Z", {{"i", 5}, {"j", first + second}}, [&](const te::Indices& i) {
    const ir::Expr behind = ir::sub(i[1], ir::int_imm(first));
    return ir::select(ir::lt(i[1], ir::int_imm(first)), te::at(x, {i[0], i[1]}),
                      te::at(y, {i[0], behind}));
  })});
}

TEST(Structure, VectorsOfAConcatenationEndWithItsParts) {
  const target::Target target = target::find_target("sapphirerapids").value();
  const auto step = [&](std::int64_t first, std::int64_t second) {
    const te::Dag dag = concatenation(first, second);
    expect_correct(dag);
    return schedule_text(dag, target);
  };
  EXPECT_TRUE(contains(step(128, 192), "split Z j 64 ")) << step(128, 192);
  EXPECT_TRUE(contains(step(96, 64), "split Z j 48 ")) << step(96, 64);
  EXPECT_TRUE(contains(step(32, 96), "split Z j 32 ")) << step(32, 96);
  EXPECT_TRUE(contains(step(16, 96), "split Z j 16 ")) << step(16, 96);
  EXPECT_TRUE(contains(step(7, 96), "split Z j 64 ")) << step(7, 96);  // no vector ends there
}

// Iterations of each parallel loop of the default schedule.
std::vector<std::int64_t> parts_of_default(const std::string& spec, const target::Target& target) {
  const te::Dag dag = dag_of(spec);
  const schedule::Schedule steps = default_schedule(dag, target).value();
  const lower::Lowered lowered = lower::lower(dag, steps, target).value();
  std::vector<std::int64_t> out;
  ir::for_each_stmt(lowered.func.body, [&](const ir::Stmt& s) {
    const auto* loop = s.as<ir::For>();
    if (loop && loop->loop_kind == ir::LoopKind::kParallel)
      out.push_back(ir::as_const_int(loop->extent).value());
  });
  return out;
}

TEST(Structure, EveryCoreGetsSeveralParts) {
  for (const char* machine : {"sapphirerapids", "haswell", "neoverse-v1"}) {
    const target::Target target = target::code_target(target::find_target(machine).value(), 16);
    for (const char* spec :
         {"matmul:M=1024,N=1024,K=1024", "dense:M=128,N=768,K=768", "dense:M=128,N=768,K=3072",
          "bmm:B=12,M=128,N=128,K=64", "conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,P=1",
          "conv2d:N=1,H=28,W=28,CI=128,CO=128,KH=3,KW=3,P=1",
          "conv2d:N=1,H=7,W=7,CI=512,CO=512,KH=3,KW=3,P=1",
          "conv2d:N=1,H=14,W=14,CI=256,CO=256,KH=3,KW=3,P=1,algo=winograd4",
          "depthwise:N=1,H=56,W=56,C=144,KH=3,KW=3,P=1", "softmax:R=1536,C=128"}) {
      const std::vector<std::int64_t> parts = parts_of_default(spec, target);
      EXPECT_FALSE(parts.empty()) << machine << " " << spec;
      for (const std::int64_t n : parts) EXPECT_GE(n, 3 * 16) << machine << " " << spec;
    }
  }
}

TEST(Structure, WindowsRunOverBlocksOfLanesWhoseRowsFitL1) {
  const target::Target arm = target::find_target("neoverse-v1").value();
  const auto text = [&](const std::string& spec) { return schedule_text(dag_of(spec), arm); };
  // A row of tiles takes 131 pixels with its weights: 96 channels of them fit 64 KiB, 576 do not.
  const std::string many = text("depthwise:N=1,H=14,W=14,C=576,KH=3,KW=3,P=1");
  EXPECT_TRUE(contains(many, "split Y c 12 8"));
  EXPECT_TRUE(contains(many, "reorder Y c.0 n oh.0 ow.0 c.1 kh kw"));
  // Less than two lines of a pixel are not worth a pass over the image.
  EXPECT_TRUE(contains(text("depthwise:N=1,H=112,W=112,C=32,KH=3,KW=3,P=1"), "split Y c 8 "));
  EXPECT_TRUE(contains(text("depthwise:N=1,H=14,W=14,C=64,KH=3,KW=3,P=1"), "split Y c 8 "));
}

TEST(Structure, WindowsHoldAsManyVectorsAsThereAreRegistersFor) {
  const std::string spec = "depthwise:N=1,H=56,W=56,C=64,KH=3,KW=3,P=1";
  const auto text = [&](const char* name) {
    return schedule_text(dag_of(spec), target::find_target(name).value());
  };
  EXPECT_TRUE(contains(text("haswell"), "split Y c 8 "));
  EXPECT_TRUE(contains(text("sapphirerapids"), "split Y c 1 32 "));
  EXPECT_TRUE(contains(text("neoverse-v1"), "split Y c 4 8 "));
}

TEST(Structure, WideVectorsAreFoldedByHalves) {
  const auto text = [](const char* name) {
    return schedule_text(dag_of("softmax:R=64,C=128"), target::find_target(name).value());
  };
  // 32 lanes, 16, then 8, 4 and 2; four are added one after the other.
  EXPECT_TRUE(contains(text("sapphirerapids"), "annotate sm.rf5 c.1.1.1.1.1 vectorize"));
  EXPECT_TRUE(contains(text("haswell"), "annotate sm.rf4 c.1.1.1.1 vectorize"));
  EXPECT_TRUE(contains(text("neoverse-v1"), "annotate sm.rf2 c.1.1 vectorize"));
  EXPECT_FALSE(contains(text("neoverse-v1"), "sm.rf3"));
}

TEST(Structure, EveryCoreGetsAsManyRowsAsTheNext) {
  target::Target many = target::find_target("sapphirerapids").value();
  const auto splits = [&](int cores, const char* split) {
    many.cores = cores;
    return contains(schedule_text(dag_of("layernorm:R=128,C=768"), many), split);
  };
  EXPECT_TRUE(splits(2, "split Y r 5 "));
  // 26 blocks of five rows would be two for some of the cores, one for the others.
  EXPECT_TRUE(splits(16, "split Y r 4 "));
  EXPECT_TRUE(splits(64, "split Y r 2 "));
}

TEST(Structure, EveryCoreGetsAsManyChunksAsTheNext) {
  target::Target many = target::find_target("sapphirerapids").value();
  many.cores = 16;
  // 24 chunks of 4096 would keep half of the cores waiting for the other half.
  EXPECT_TRUE(
      contains(schedule_text(dag_of("eltwise:N=98304,fn=mul+add+relu"), many), "split Y i 48 64"));
}

TEST(Structure, BothAxesOfAWinogradTileAreTransformedAtOnce) {
  const std::string text =
      schedule_text(dag_of("conv2d:N=1,H=14,W=14,CI=32,CO=32,KH=3,KW=3,P=1,algo=winograd4"));
  EXPECT_TRUE(contains(text, "annotate V eps unroll"));
  EXPECT_TRUE(contains(text, "annotate V nu unroll"));
  // All rows of a matrix for one column of values, then the next column.
  EXPECT_TRUE(contains(text, "reorder T nu eps tile ci"));
  EXPECT_TRUE(contains(text, "reorder Z nu tile i co"));
}

TEST(Structure, RowsOfWinogradTilesStayInL2WhereTheWeightsDo) {
  target::Target wide = target::find_target("sapphirerapids").value();
  const auto by_rows = [&](const std::string& sizes, int cores) {
    wide.cores = cores;
    const std::string spec = "conv2d:N=1,KH=3,KW=3,P=1,algo=winograd4," + sizes;
    return contains(schedule_text(dag_of(spec), wide), "compute_at V Y oh.0");
  };
  EXPECT_TRUE(by_rows("H=56,W=56,CI=64,CO=64", 1));
  EXPECT_TRUE(by_rows("H=56,W=56,CI=64,CO=64", 16));
  // 14 rows are few for 48 cores; weights of 2.4 MB are read from L3; all of it fits L2.
  EXPECT_FALSE(by_rows("H=56,W=56,CI=64,CO=64", 48));
  EXPECT_FALSE(by_rows("H=28,W=28,CI=128,CO=128", 1));
  EXPECT_FALSE(by_rows("H=14,W=14,CI=64,CO=64", 1));
}

TEST(Structure, PanelsFromL3AreFetchedAhead) {
  const target::Target arm = target::find_target("neoverse-v1").value();
  const auto text = [&](const std::string& spec) { return schedule_text(dag_of(spec), arm); };
  const std::string conv = "conv2d:N=1,H=14,W=14,KH=3,KW=3,P=1,algo=winograd4,";
  EXPECT_TRUE(contains(text(conv + "CI=256,CO=256"), "prefetch M ci.1 U"));
  // These stay in L2, those come from memory.
  EXPECT_FALSE(contains(text(conv + "CI=64,CO=64"), "prefetch"));
  EXPECT_FALSE(contains(text(conv + "CI=512,CO=512"), "prefetch"));
}

TEST(Structure, TilesOfAPanelFetchTheNextOne) {
  const auto text = [](const std::string& spec, const char* name) {
    return schedule_text(dag_of(spec), target::find_target(name).value());
  };
  const std::string large = "dense:M=128,N=768,K=3072", small = "dense:M=64,N=32,K=32";
  EXPECT_TRUE(contains(text(large, "sapphirerapids"), "prefetch C k W 0\n"));
  EXPECT_FALSE(contains(text(large, "neoverse-v1"), "prefetch C k W 0\n"));
  EXPECT_FALSE(contains(text(small, "sapphirerapids"), "prefetch"));
  // Weights of 1 MB for few tiles come panel by panel; for many, rows as they lie matter more.
  target::Target one = target::find_target("sapphirerapids").value();
  one.cores = 1;
  const auto order = [&](const std::string& spec) { return schedule_text(dag_of(spec), one); };
  EXPECT_TRUE(contains(order("dense:M=196,N=256,K=1024"), "reorder Y j.0 i.0"));
  EXPECT_TRUE(contains(order("dense:M=784,N=256,K=1024"), "reorder Y i.0 i.1 j.0"));
}

TEST(Structure, BothOperandsOfALargeProductAreCopiedBlockByBlock) {
  const auto text = [](const std::string& spec, const char* name) {
    target::Target one = target::find_target(name).value();
    one.cores = 1;
    return schedule_text(dag_of(spec), one);
  };
  const std::string large = text("matmul:M=2048,N=2048,K=2048", "sapphirerapids");
  EXPECT_TRUE(contains(large, "layout B.local d0/256 d1/32 d0%256 d1%32\n")) << large;
  EXPECT_TRUE(contains(large, "layout A.local d1/256 d0 d1%256\n"));
  EXPECT_TRUE(contains(large, "reorder C j.0 k.0 i.0 i.1 j.1 k.1 i.2 j.2\n"));
  EXPECT_TRUE(contains(large, "compute_at B.local C k.0\ncompute_at A.local C i.0\n"));
  // Rows of a transposed operand lie side by side already; small products stay in L2 as they are.
  EXPECT_FALSE(contains(text("matmul:M=512,N=2048,K=2048,TA=1", "sapphirerapids"), "A.local"));
  EXPECT_FALSE(contains(text("matmul:M=256,N=256,K=256", "sapphirerapids"), "local"));
  EXPECT_FALSE(contains(text("matmul:M=512,N=2048,K=2048", "neoverse-v1"), "compute_at"));
}

TEST(Structure, CopiedBlocksOfOddProductsAreCorrect) {
  target::Target small = target::find_target("skylake-avx512").value();
  small.l1_bytes = 8 << 10;
  small.l2_bytes = 32 << 10;
  for (const int threads : {1, 2}) {
    small.cores = threads;
    for (const char* spec : {"matmul:M=37,N=70,K=157", "matmul:M=141,N=70,K=101",
                             "matmul:M=31,N=97,K=99,TA=1", "matmul:M=29,N=83,K=111,TB=1"}) {
      SCOPED_TRACE(spec);
      EXPECT_TRUE(contains(schedule_text(dag_of(spec), small), "compute_at B.local C k.0"));
      expect_correct(dag_of(spec), small, false, 4);
    }
  }
}

TEST(Structure, VectorsLieAlongTheImageWhereChannelsAreFew) {
  const target::Target arm = target::find_target("neoverse-v1").value();
  const std::string few =
      schedule_text(dag_of("conv2d:N=1,H=32,W=32,CI=16,CO=3,KH=3,KW=3,P=1"), arm);
  EXPECT_TRUE(contains(few, "layout pad d0 d1 d3 d2"));
  EXPECT_TRUE(contains(few, "annotate Y ow.1 vectorize"));
  const std::string four =
      schedule_text(dag_of("conv2d:N=1,H=32,W=32,CI=16,CO=4,KH=3,KW=3,P=1"), arm);
  EXPECT_TRUE(contains(four, "annotate Y co.1 vectorize"));
}

// Every line that groups of channels share is read for all of them at once.
TEST(Structure, GroupsOfChannelsRunOverOneTile) {
  EXPECT_TRUE(
      contains(schedule_text(dag_of("conv2d:N=1,H=56,W=56,CI=128,CO=128,KH=3,KW=3,P=1,G=32"),
                             target::find_target("x86-64-v4").value()),
               "reorder Y n oh ow.0 g co.0"));
}

TEST(Structure, BytesAreMultipliedInGroups) {
  target::Target arm = target::find_target("neoverse-v1").value();
  const auto text = [&](const std::string& spec) { return schedule_text(dag_of(spec), arm); };
  const std::string product = "tensorize C";
  EXPECT_TRUE(contains(text("matmul:M=16,N=32,K=32,dtype=i8"), product));
  EXPECT_TRUE(contains(text("matmul:M=16,N=32,K=32,dtype=u8,TA=1,TB=1"), product));
  EXPECT_TRUE(contains(text("dense:M=1,N=32,K=32,dtype=u8"), product));
  EXPECT_TRUE(
      contains(text("conv2d:N=1,H=9,W=9,CI=8,CO=16,KH=3,KW=3,P=1,dtype=i8"), "tensorize Y"));
  // Groups that do not come out even, too few columns, a machine without the instruction.
  EXPECT_FALSE(contains(text("matmul:M=16,N=32,K=30,dtype=i8"), product));
  EXPECT_FALSE(contains(text("dense:M=16,N=10,K=32,dtype=i8"), product));
  arm.has_i8_dot = false;
  EXPECT_FALSE(contains(text("matmul:M=16,N=32,K=32,dtype=i8"), product));
}

// 1000 = 62.5 vectors of 16: the last one would be computed element by element.
TEST(Structure, VectorsOfBytesLeaveNoColumnOver) {
  const target::Target machine = *target::find_target("icelake-server");
  const auto text = [&](const char* spec) { return schedule_text(dag_of(spec), machine); };
  // The last eight columns of many are a shorter vector; few columns take narrower vectors.
  EXPECT_TRUE(contains(text("matmul:M=8,N=1000,K=64,dtype=i8"), "split C j 2 16 tail=peel"));
  EXPECT_TRUE(contains(text("matmul:M=8,N=72,K=64,dtype=i8"), "split C j 2 8 tail=peel"));
  EXPECT_NE(text("matmul:M=8,N=1024,K=64,dtype=i8").find(" 16 tail=peel"), std::string::npos);
  EXPECT_NE(text("matmul:M=8,N=1001,K=64,dtype=i8").find(" 16 tail=peel"), std::string::npos);
  expect_correct(dag_of("matmul:M=8,N=72,K=16,dtype=i8"), machine, false);
  expect_correct(dag_of("matmul:M=8,N=264,K=16,dtype=i8"), machine, false);
}

// LLVM keeps more beside the sums than the product needs; weights of L3 are fetched ahead; few
// weights leave the rows outside.
TEST(Structure, ProductsOfBytesLeaveRegistersAndOrderByTheirWeights) {
  target::Target machine = *target::find_target("icelake-server");
  machine.cores = 1;
  const auto text = [&](const char* spec) { return schedule_text(dag_of(spec), machine); };
  const std::string rows = text("dense:M=3136,N=64,K=256,dtype=i8");
  EXPECT_TRUE(contains(rows, " 12 tail=peel") && contains(rows, "i.0 j.0")) << rows;
  EXPECT_FALSE(contains(rows, "prefetch"));
  const std::string weights = text("dense:M=49,N=512,K=4608,dtype=i8");
  EXPECT_TRUE(contains(weights, "j.0 i.0") && contains(weights, "prefetch")) << weights;
}

TEST(Structure, NarrowProductsUseTileRegisters) {
  target::Target machine = *target::find_target("sapphirerapids");
  const auto text = [&](const char* spec) { return schedule_text(dag_of(spec), machine); };
  EXPECT_TRUE(contains(text("dense:M=128,N=768,K=768,dtype=bf16"), "tensorize C i.1 tile16x16x32"));
  EXPECT_TRUE(contains(text("dense:M=49,N=64,K=64,dtype=u8"), "tile16x16x64"));
  // Two lines of a map whose rows are short, four columns of tiles for what has no other rows.
  const std::string map = text("conv2d:N=1,H=14,W=14,CI=64,CO=64,KH=3,KW=3,P=1,dtype=bf16");
  EXPECT_TRUE(contains(map, "split out oh 2 ") && contains(map, "split Y ow 14 ")) << map;
  EXPECT_TRUE(contains(text("dense:M=8,N=256,K=64,dtype=i8"), " 64 tail=peel"));
  // One row, sums that leave a product over, a machine with dot products alone.
  EXPECT_FALSE(contains(text("dense:M=1,N=256,K=64,dtype=bf16"), "tile16"));
  EXPECT_FALSE(contains(text("dense:M=64,N=256,K=65,dtype=bf16"), "tensorize"));
  machine.has_bf16_tiles = false;
  EXPECT_TRUE(contains(text("dense:M=64,N=256,K=64,dtype=bf16"), "dot2"));
}

TEST(Tile, FitsTheRegisters) {
  const target::Target arm = target::find_target("neoverse-v1").value();
  const RegisterTile big =
      choose_tile({.rows = 1024, .columns = 1024, .depth = 256, .lanes = 4, .packed = true}, arm);
  EXPECT_EQ(big.rows, 8);
  EXPECT_EQ(big.vectors, 3);
  const target::Target avx2 = target::find_target("haswell").value();
  const RegisterTile half =
      choose_tile({.rows = 1024, .columns = 1024, .depth = 256, .lanes = 8, .packed = true}, avx2);
  EXPECT_LE(half.rows * half.vectors + half.vectors + 1, 16);
  EXPECT_GE(half.rows * half.vectors, 10);
}

TEST(Tile, NeverExceedsTheExtents) {
  const target::Target arm = target::find_target("neoverse-v1").value();
  const RegisterTile row =
      choose_tile({.rows = 1, .columns = 3, .depth = 1, .lanes = 4, .packed = false}, arm);
  EXPECT_EQ(row.rows, 1);
  EXPECT_EQ(row.vectors, 1);
}

}  // namespace
}  // namespace tessera::space
