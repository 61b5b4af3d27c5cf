#include "tessera/frontend/plan/convolution.h"

#include <gtest/gtest.h>

#include "tessera/frontend/plan/columns.h"
#include "tessera/frontend/plan/pointwise.h"

namespace tessera::plan {
namespace {

Convolution three_by_three() {
  Convolution c;
  c.in = {1, 56, 56, 64};
  c.out = {1, 56, 56, 128};
  c.window = {3, 3};
  c.strides = c.dilations = c.before = c.after = {1, 1};
  c.channels_last = c.transformable = true;
  return c;
}

TEST(AlgorithmPoint, DenseWindowsHaveAllAlgorithms) {
  const std::optional<Point> point = algorithm_point(three_by_three(), {});
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->name, "conv n1 h56 w56 ci64 co128 k3x3 s1 p1,1,1,1 g1");
  EXPECT_EQ(point->labels, convolution_algorithms());
  EXPECT_EQ(point->label(point->preferred), "winograd4");
}

TEST(AlgorithmPoint, WhatWinogradCannotDoIsDirect) {
  const auto changed = [](auto change) {
    Convolution c = three_by_three();
    change(c);
    return algorithm_point(c, {});
  };
  EXPECT_FALSE(changed([](Convolution& c) { c.strides = {2, 1}; }));
  EXPECT_FALSE(changed([](Convolution& c) { c.dilations = {1, 2}; }));
  EXPECT_FALSE(changed([](Convolution& c) { c.groups = 2; }));
  EXPECT_FALSE(changed([](Convolution& c) { c.channels_last = false; }));
  EXPECT_FALSE(changed([](Convolution& c) { c.transformable = false; }));
  EXPECT_FALSE(changed([](Convolution& c) { c.window = {3, 9}; }));
  EXPECT_FALSE(changed([](Convolution& c) { c.out = {0, 56, 56, 128}; }));
}

TEST(AlgorithmPoint, WindowsHaveTheTilesThatRoundLittle) {
  const auto values = [](Shape window) {
    Convolution c = three_by_three();
    c.window = std::move(window);
    return algorithm_point(c, {})->labels;
  };
  EXPECT_EQ(values({1, 7}), convolution_algorithms());
  EXPECT_EQ(values({5, 5}), (std::vector<std::string>{"direct", "winograd2", "winograd4"}));
  EXPECT_EQ(values({7, 7}), (std::vector<std::string>{"direct", "winograd2"}));
}

// Layers of Inception-v3, AlexNet, LeNet and DCGAN on one core with AVX-512.
TEST(AlgorithmPoint, OtherWindowsPayWhereTheirTransformsDo) {
  Rules rules;
  rules.flops_per_byte = 12.8;
  const auto preferred = [&](Shape in, Shape out, Shape window, std::int64_t stride = 0) {
    Convolution c = three_by_three();
    c.in = std::move(in);
    c.out = std::move(out);
    c.window = std::move(window);
    c.transposed = stride > 0;
    if (c.transposed) c.strides = {stride, stride};
    return preferred_algorithm(c, rules);
  };
  EXPECT_EQ(preferred({1, 17, 17, 192}, {1, 17, 17, 192}, {1, 7}), "direct");
  rules.winograd_windows = rules.winograd_transposed = true;
  EXPECT_EQ(preferred({1, 17, 17, 192}, {1, 17, 17, 192}, {1, 7}), "winograd4");
  EXPECT_EQ(preferred({1, 35, 35, 48}, {1, 35, 35, 64}, {5, 5}), "winograd4");
  EXPECT_EQ(preferred({1, 14, 14, 6}, {1, 10, 10, 16}, {5, 5}), "winograd4");
  EXPECT_EQ(preferred({1, 28, 28, 1}, {1, 28, 28, 6}, {5, 5}), "direct");
  EXPECT_EQ(preferred({1, 4, 4, 512}, {1, 8, 8, 256}, {4, 4}, 2), "direct");  // but see below
  EXPECT_EQ(preferred({1, 8, 8, 256}, {1, 16, 16, 128}, {4, 4}, 2), "winograd2");
  EXPECT_NE(preferred({1, 16, 16, 128}, {1, 32, 32, 64}, {4, 4}, 2), "direct");
  EXPECT_EQ(preferred({1, 32, 32, 64}, {1, 64, 64, 3}, {4, 4}, 2), "direct");
}

TEST(AlgorithmPoint, WeightsMayNotGrowWithoutBound) {
  Rules rules;
  rules.flops_per_byte = 12.8;
  rules.winograd_transposed = true;
  Convolution c = three_by_three();
  c.in = {1, 64, 64, 256};
  c.out = {1, 256, 256, 256};
  c.window = {8, 8};
  c.strides = {4, 4};
  c.before = c.after = {2, 2};
  c.transposed = true;
  EXPECT_EQ(preferred_algorithm(c, rules), "direct");
}

TEST(ColumnsPoint, FewPositionsOfTransposedConvolutionsAreRows) {
  Convolution c = three_by_three();
  c.transposed = true;
  c.in = {1, 4, 4, 512};
  c.out = {1, 8, 8, 256};
  c.window = {4, 4};
  c.strides = {2, 2};
  Rules rules;
  const std::optional<Point> point = transposed_columns_point(c, rules);
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->name, "columns_transpose n1 h4 w4 ci512 co256 k4x4 s2,2");
  EXPECT_EQ(point->label(point->preferred), kProduct);
  rules.slices_in_place = true;  // a GPU
  EXPECT_EQ(transposed_columns_point(c, rules)->labels[0], kProduct);
  EXPECT_NE(transposed_columns_point(c, rules)->preferred, 0u);
  c.in = {1, 8, 8, 512};
  EXPECT_FALSE(transposed_columns_point(c, rules));
  c.in = {1, 1, 1, 512};
  EXPECT_FALSE(transposed_columns_point(c, rules));
}

TEST(ColumnsPoint, StridesAndSmallMapsOfMuchWorkAreGathered) {
  Rules rules;
  rules.slices_in_place = true;
  const auto gathered = [&](Shape in, Shape out, Shape window, std::int64_t stride) {
    Convolution c = three_by_three();
    c.in = std::move(in);
    c.out = std::move(out);
    c.window = std::move(window);
    c.strides = {stride, stride};
    const std::optional<Point> point = columns_point(c, rules);
    return point && point->label(point->preferred) == kProduct;
  };
  EXPECT_TRUE(gathered({16, 14, 14, 512}, {16, 7, 7, 512}, {3, 3}, 2));
  EXPECT_TRUE(gathered({16, 14, 14, 1024}, {16, 7, 7, 2048}, {1, 1}, 2));
  EXPECT_TRUE(gathered({16, 7, 7, 512}, {16, 7, 7, 512}, {3, 3}, 1));
  EXPECT_FALSE(gathered({16, 14, 14, 256}, {16, 14, 14, 256}, {3, 3}, 1));  // fills its tiles
  EXPECT_FALSE(gathered({1, 14, 14, 512}, {1, 7, 7, 512}, {3, 3}, 2));      // little work
  rules.slices_in_place = false;                                            // a CPU
  EXPECT_FALSE(gathered({16, 14, 14, 512}, {16, 7, 7, 512}, {3, 3}, 2));
}

TEST(AlgorithmPoint, FramesCountTogether) {
  const auto preferred = [](Shape out, bool allowed) {
    Convolution c = three_by_three();
    c.in = c.out = std::move(out);
    c.window = {3, 3, 3};
    c.strides = c.dilations = c.before = c.after = {1, 1, 1};
    Rules rules;
    rules.winograd_min_size = 28;
    rules.winograd_depth = allowed;
    const Point point = algorithm_point(c, rules).value();
    EXPECT_EQ(point.name.find("conv n1 d"), 0U);
    EXPECT_NE(point.name.find(" k3x3x3 s1 p1,1,1,1,1,1 g1"), std::string::npos) << point.name;
    return point.label(point.preferred);
  };
  EXPECT_EQ(preferred({1, 16, 56, 56, 64}, true), "winograd4");
  EXPECT_EQ(preferred({1, 16, 56, 56, 64}, false), "direct");
  EXPECT_EQ(preferred({1, 4, 14, 14, 256}, true), "winograd4");
  EXPECT_EQ(preferred({1, 2, 7, 7, 512}, true), "direct");
  EXPECT_EQ(preferred({1, 64, 4, 4, 64}, true), "direct");
}

TEST(AlgorithmPoint, OneByOneIsAProductOrAsItIs) {
  Convolution c = three_by_three();
  c.window = {1, 1};
  c.before = c.after = {0, 0};
  const std::optional<Point> point = algorithm_point(c, {});
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->kind, PointKind::kPointwise);
  EXPECT_EQ(point->name, "pointwise n1 h56 w56 ci64 co128");
  EXPECT_EQ(point->label(point->preferred), "product");
  Rules rules;
  rules.pointwise_as_product = false;
  EXPECT_EQ(algorithm_point(c, rules)->preferred, 1u);
  c.before = {1, 0};
  EXPECT_FALSE(algorithm_point(c, {}));
}

TEST(Rounding, GrowsWithTheTile) {
  int last = -1;
  for (const std::string& name : convolution_algorithms()) {
    EXPECT_GT(rounding(name), last) << name;
    last = rounding(name);
  }
  EXPECT_EQ(rounding(kMerged), 0);
}

}  // namespace
}  // namespace tessera::plan
