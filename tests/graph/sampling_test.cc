#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/lang/ir/visitor.h"
#include "tests/graph/node_runner.h"

namespace tessera::graph {
namespace {

using testing::counting;
using ::testing::ElementsAre;
using testing::expect_agreement;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::refusal;
using testing::run_node;
using testing::Tensors;
using testing::values_of;
using Integers = std::vector<std::int64_t>;

TEST(Sampling, UpsampleRepeats) {
  const auto y = expect_agreement("upsample", {{"factors", Integers{1, 2, 3}}},
                                  {counting({1, 2, 2}, DType::kU8)});
  EXPECT_THAT(values_of(y.at(0)),
              ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 2, 2, 2, 3, 3, 3));
  EXPECT_NE(refusal("upsample", {{"factors", Integers{0}}}, {counting({2})}), "");
  EXPECT_NE(refusal("upsample", {{"factors", Integers{INT64_MAX}}}, {counting({2})}), "");
}

const Attrs kBoth{{"axes", Integers{0, 1}}};

TEST(Sampling, ResizeAddsWeightedTaps) {
  const HostTensor rows = ints({1, 2}, {0, 1}), row_weights = floats({1, 2}, {0.25, 0.75});
  const HostTensor columns = ints({2, 2}, {0, 2, 1, 1}),
                   column_weights = floats({2, 2}, {0.5, 0.5, 2, -1});
  const Tensors inputs = {counting({2, 3}), rows, row_weights, columns, column_weights};
  const auto y = run_node("resize", kBoth, inputs);
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_THAT(values_of((*y)[0]), ElementsAre(3.25, 3.25));
}

// Sums of more than a few taps are a reduction instead of an expression: the same result.
TEST(Sampling, ResizeOfManyTaps) {
  Rng rng(5);
  const HostTensor x = random_tensor(DType::kF16, {3, 4}, rng);
  HostTensor index(DType::kI64, {2, 3}), many_index(DType::kI64, {2, 12});
  const HostTensor weight = random_tensor(DType::kF32, {2, 3}, rng);
  HostTensor many_weight(DType::kF32, {2, 12});
  for (std::int64_t i = 0; i < 6; ++i) {
    index.set_int(i, i % 4);
    many_index.set_int(i / 3 * 12 + i % 3, i % 4);
    many_weight.set_float(i / 3 * 12 + i % 3, weight.get_float(i));
  }
  const Attrs attrs{{"axes", Integers{1}}};
  const auto few = run_node("resize", attrs, {x, index, weight});
  const auto many = run_node("resize", attrs, {x, many_index, many_weight});
  ASSERT_TRUE(few.ok() && many.ok());
  EXPECT_EQ(tessera::testing::mismatch((*many)[0], (*few)[0],
                                       tessera::testing::tolerance(DType::kF16, 3)),
            "");
}

TEST(Sampling, ResizeRefusesBadTables) {
  const Attrs attrs{{"axes", Integers{0}}};
  const HostTensor x = counting({3}), weight = floats({1, 1}, {1});
  EXPECT_THAT(refusal("resize", attrs, {x, ints({1, 1}, {3}), weight}), HasSubstr("index 3"));
  EXPECT_NE(refusal("resize", attrs, {x, ints({1, 2}, {0, 1}), weight}), "");
  EXPECT_NE(refusal("resize", attrs, {counting({3}, DType::kI32), ints({1, 1}, {0}), weight}), "");
  EXPECT_NE(refusal("resize", kBoth, {x, ints({1, 1}, {0}), weight}), "");
}

Attrs grid_attrs(const char* mode, const char* padding, std::int64_t align) {
  return {{"mode", std::string(mode)}, {"padding", std::string(padding)}, {"align_corners", align}};
}

std::vector<double> sample(const Attrs& attrs, const HostTensor& x, const HostTensor& grid) {
  const auto y = run_node("grid_sample", attrs, {x, grid});
  EXPECT_TRUE(y.ok()) << y.error().message;
  return y.ok() ? values_of((*y)[0]) : std::vector<double>();
}

TEST(Sampling, GridSampleInThreeDimensions) {
  // The middle of a cube of 2x2x2, one corner, and half way along x only.
  const HostTensor x = counting({1, 1, 2, 2, 2});
  const HostTensor grid = floats({1, 1, 1, 3, 3}, {0, 0, 0, 1, 1, 1, 0, -1, -1});
  EXPECT_THAT(sample(grid_attrs("linear", "zeros", 1), x, grid), ElementsAre(3.5, 7, 0.5));
}

TEST(Sampling, GridSamplePadding) {
  const HostTensor x = floats({1, 1, 1, 3}, {1, 2, 3});
  // Pixels -2, -0.5 (half a pixel out) and 4 of a row of three.
  const HostTensor grid = floats({1, 1, 3, 2}, {-2, 0, -1, 0, 2, 0});
  EXPECT_THAT(sample(grid_attrs("linear", "zeros", 0), x, grid), ElementsAre(0, 0.5, 0));
  EXPECT_THAT(sample(grid_attrs("linear", "border", 0), x, grid), ElementsAre(1, 1, 3));
  // Reflected about -0.5 and 2.5: -2 shows 1, 4 shows 1.
  EXPECT_THAT(sample(grid_attrs("linear", "reflection", 0), x, grid), ElementsAre(2, 1, 2));
  EXPECT_THAT(sample(grid_attrs("nearest", "reflection", 1), x, grid), ElementsAre(2, 1, 2));
  EXPECT_THAT(sample(grid_attrs("cubic", "border", 1), x, floats({1, 1, 1, 2}, {0, 0})),
              ElementsAre(2));
}

// As PyTorch 2.15 gives them; ONNX Runtime 1.31 differs by less than 2e-5.
struct SampledAt {
  const char *mode, *padding;
  std::int64_t align;
  std::vector<double> values;
};
const std::vector<SampledAt> kSampled = {
    {"nearest", "zeros", 0, {0, 0, -5, 1, 0, 0, 0}},
    {"nearest", "zeros", 1, {0, 3, -5, 5, 9, 0, 0}},
    {"nearest", "border", 0, {-5, 3, -5, 1, 9, -5, 9}},
    {"nearest", "border", 1, {-5, 3, -5, 5, 9, -5, 9}},
    {"nearest", "reflection", 0, {8, 3, -5, 1, 9, 5, 8}},
    {"nearest", "reflection", 1, {9, 3, -5, 5, 9, 5, -6}},
    {"linear", "zeros", 0, {0, 0.418945, -2.41211, 1.97852, 1.90723, 0, 0}},
    {"linear", "zeros", 1, {0, 2.46094, -1.1875, 1.42188, 2.4375, 0, 0}},
    {"linear", "border", 0, {-1.5, 3, -5, 1.97852, 9, -5, 9}},
    {"linear", "border", 1, {2, 3, -1.1875, 1.42188, 3, -5, 9}},
    {"linear", "reflection", 0, {6.03125, 3, -5, 1.97852, 9, 3.30859, 4.27344}},
    {"linear", "reflection", 1, {3.25, 2.85156, -1.1875, 1.42188, 3.14062, 3.53125, 1.9375}},
    {"cubic", "zeros", 0, {0, 0.321649, -4.71734, 3.23159, 1.95392, 0, 0}},
    {"cubic", "zeros", 1, {-0.196289, 2.59566, -2.14789, 2.36216, 2.50061, 0.0419168, 0}},
    {"cubic", "border", 0, {-1.61719, 2.77885, -7.91008, 2.97342, 9.53126, -5, 9}},
    {"cubic", "border", 1, {2.5625, 3.03105, -1.58782, 2.11428, 1.96931, -5.06152, 9.39551}},
    {"cubic", "reflection", 0, {7.7448, 2.49949, -9.43147, 2.97342, 10.1847, 4.77388, 4.92392}},
    {"cubic", "reflection", 1, {4.68555, 2.90598, -3.34329, 2.30333, 4.12764, 4.58991, 2.10696}},
};

TEST(Sampling, GridSampleIsThatOfOtherLibraries) {
  const HostTensor x = floats({1, 1, 3, 5}, {3, -1, 4, 1, -5, 9, 2, -6, 5, 3, -5, 8, 9, -7, 9});
  const HostTensor grid =
      floats({1, 1, 7, 2}, {-1.75, 0.5, -1.0625, -1.0625, -0.875, 0.9375, 0.3125, -0.4375, 0.8125,
                            1.1875, 1.4375, -2.125, 2.25, 1.625});
  for (const SampledAt& want : kSampled) {
    const auto got = sample(grid_attrs(want.mode, want.padding, want.align), x, grid);
    ASSERT_EQ(got.size(), want.values.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], want.values[i], 1e-4)
          << want.mode << " " << want.padding << " " << want.align << " point " << i;
    }
  }
}

// Places and weights are computed once for all channels: what is left for a tap, of which cubic
// volumes have 64, is a few reads and products.
TEST(Sampling, GridSampleLeavesLittleToEachTap) {
  const Attrs attrs = grid_attrs("cubic", "zeros", 0);
  const TensorType x{DType::kF32, {1, 4, 8, 8}}, grid{DType::kF32, {1, 16, 16, 2}};
  te::DagBuilder b("sample");
  const NodeView node{attrs, {&x, &grid}, {nullptr, nullptr}};
  const auto y =
      find_op("grid_sample")
          ->define(b, "sample", node,
                   {b.input("x", x.dtype, x.shape), b.input("grid", grid.dtype, grid.shape)});
  ASSERT_TRUE(y.ok()) << y.error().message;
  const te::Dag dag = b.build(*y);
  int nodes = 0;
  ir::for_each_expr(dag.ops.back().values[0], [&](const ir::Expr& e) {
    const auto* load = e.as<ir::Load>();
    nodes += load ? static_cast<int>(load->indices.size()) : 1;
  });
  EXPECT_EQ(dag.ops.back().reducer, te::Reducer::kSum);
  EXPECT_LT(nodes, 80);
  for (std::size_t i = 0; i + 1 < dag.ops.size(); ++i) {
    EXPECT_LE(dag.ops[i].outputs[0].size(), 4 * 16 * 16) << dag.ops[i].name;  // no channels
  }
}

// Far away every cubic tap is the pixel at the border; nothing overflows on the way.
TEST(Sampling, GridSampleFarBeyondTheBorder) {
  const HostTensor x = floats({1, 1, 1, 3}, {1, 2, 3});
  const HostTensor grid = floats({1, 1, 4, 2}, {1e30, 0, -1e30, 0, 3e9, 0, -3e9, 0});
  for (const std::int64_t align : {0, 1}) {
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      EXPECT_THAT(sample(grid_attrs(mode, "border", align), x, grid), ElementsAre(3, 1, 3, 1));
      EXPECT_THAT(sample(grid_attrs(mode, "zeros", align), x, grid), ElementsAre(0, 0, 0, 0));
    }
  }
}

TEST(Sampling, GridSampleOfAnySizeAndPoint) {
  const HostTensor x = counting({1, 1, 1, 1});
  const double nan = std::nan(""), inf = INFINITY;
  const HostTensor grid = floats({1, 1, 4, 2}, {nan, 0, inf, -inf, 1e30, -1e30, 0, 0});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const std::int64_t align : {0, 1}) {
        const auto y = run_node("grid_sample", grid_attrs(mode, padding, align), {x, grid});
        EXPECT_TRUE(y.ok()) << mode << " " << padding << ": " << y.error().message;
      }
    }
  }
  EXPECT_NE(
      refusal("grid_sample", grid_attrs("linear", "zeros", 0), {counting({1, 1, 0, 1}), grid}), "");
  EXPECT_NE(refusal("grid_sample", grid_attrs("area", "zeros", 0), {x, grid}), "");
  EXPECT_NE(refusal("grid_sample", grid_attrs("linear", "zeros", 0), {x, counting({1, 1, 4, 3})}),
            "");
}

TEST(Sampling, Col2ImAddsOverlaps) {
  // Two blocks of two pixels over three pixels: the middle one is covered twice.
  const Attrs attrs{{"image", Integers{3}},  {"block", Integers{2}}, {"strides", Integers{1}},
                    {"before", Integers{0}}, {"after", Integers{0}}, {"dilations", Integers{1}}};
  for (const DType t : {DType::kF32, DType::kF16, DType::kI32}) {
    const auto y = run_node("col2im", attrs, {counting({1, 2, 2}, t)});
    ASSERT_TRUE(y.ok()) << y.error().message;
    EXPECT_THAT(values_of((*y)[0]), ElementsAre(0, 3, 3));
  }
  EXPECT_NE(refusal("col2im", attrs, {counting({1, 2, 3})}), "");
  EXPECT_NE(refusal("col2im", attrs, {counting({1, 3, 2})}), "");
}

}  // namespace
}  // namespace tessera::graph
