#include "tessera/lang/te/split_axes.h"

#include <gtest/gtest.h>

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/ops/conv.h"

namespace tessera::te {
namespace {

// A grouped 1x1 convolution whose groups are merged, a bias per channel and a maximum with 0.
Dag grouped_conv(bool channels_first) {
  const std::int64_t size = 2, channels = 6;
  const std::vector<Window> windows = {{.axis = "w", .size = size, .kernel = 1, .out = size}};
  const ConvParams params{windows, 3, channels_first};
  DagBuilder b("grouped");
  const ir::Buffer x =
      b.input("X", DType::kF32, arrange<std::int64_t>(channels_first, 1, {size}, {channels}));
  const ir::Buffer w = b.constant("W", DType::kF32, {channels, 2, 1});
  const ir::Buffer bias = b.constant("B", DType::kF32, {channels});
  const Stage acc = conv_stage(b, "acc", x, w, params, DType::kF32);
  const ir::Buffer y = merge_groups(b, "Y", acc, params, DType::kF32);
  const NamedAxes axes = {{"i", y->shape[0]}, {"j", y->shape[1]}, {"k", y->shape[2]}};
  const ir::Buffer sum = b.compute("sum", axes, [&](const Indices& i) {
    return at(y, i) + at(bias, {channels_first ? i[1] : i[2]});
  });
  return b.build({b.compute("relu", axes, [&](const Indices& i) {
    return ir::max(at(sum, i), ir::imm(DType::kF32, 0));
  })});
}

TEST(SplitMergedAxes, EpilogueOfAGroupedConvolutionGetsItsAxes) {
  const Dag dag = split_merged_axes(grouped_conv(false));
  ASSERT_TRUE(verify(dag).ok());
  EXPECT_EQ(to_text(dag),
            "dag grouped\n"
            "  input X: f32[1, 2, 6]\n"
            "  constant W: f32[6, 2, 1]\n"
            "  constant B: f32[6]\n"
            "  stage acc: f32[1, 2, 3, 2]\n"
            "    acc[n, ow, g, co] = sum(kw in 1, ci in 2) X[n, ow + kw, g * 2 + ci] * W[g * 2 + "
            "co, ci, kw]\n"
            "  stage Y: f32[1, 2, 3, 2]\n"
            "    Y[n, ow, g, co] = acc[n, ow, g, co]\n"
            "  stage sum: f32[1, 2, 3, 2]\n"
            "    sum[i, j, g, k] = Y[i, j, g, k] + B[g * 2 + k]\n"
            "  stage relu: f32[1, 2, 3, 2]\n"
            "    relu[i, j, g, k] = max(sum[i, j, g, k], 0.0)\n"
            "  output relu\n");
}

TEST(SplitMergedAxes, ChannelsFirst) {
  const Dag dag = split_merged_axes(grouped_conv(true));
  ASSERT_TRUE(verify(dag).ok());
  EXPECT_EQ(dag.outputs[0]->shape, (std::vector<std::int64_t>{1, 3, 2, 2}));
}

TEST(SplitMergedAxes, OtherReadersDivide) {
  DagBuilder b("reversed");
  const ir::Buffer x = b.input("X", DType::kF32, {2, 3, 4});
  const ir::Buffer s = b.reduce("S", Reducer::kSum, {{"a", 2}, {"b", 3}}, {{"r", 4}},
                                [&](const Indices& i, const Indices& r) {
                                  return at(x, {i[0], i[1], r[0]});
                                });
  const ir::Buffer merged = b.compute("M", {{"c", 6}}, [&](const Indices& i) {
    return at(s, {ir::floor_div(i[0], ir::int_imm(3)), ir::floor_mod(i[0], ir::int_imm(3))});
  });
  const ir::Buffer reversed = b.compute(
      "R", {{"d", 6}}, [&](const Indices& i) { return at(merged, {ir::int_imm(5) - i[0]}); });
  const Dag dag = split_merged_axes(b.build({reversed}));
  ASSERT_TRUE(verify(dag).ok());
  EXPECT_EQ(dag.ops[1].outputs[0]->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(dag.outputs[0]->shape, (std::vector<std::int64_t>{6}));
}

TEST(SplitMergedAxes, LeavesOtherDagsAlone) {
  DagBuilder b("flatten");
  const ir::Buffer x = b.input("X", DType::kF32, {2, 3});
  const ir::Buffer y = b.compute("Y", {{"c", 6}}, [&](const Indices& i) {
    return at(x, {ir::floor_div(i[0], ir::int_imm(3)), ir::floor_mod(i[0], ir::int_imm(3))});
  });
  const Dag dag = split_merged_axes(b.build({y}));
  EXPECT_EQ(dag.outputs[0], y);
}

}  // namespace
}  // namespace tessera::te
