// Reductions and normalisations: what the backend cases leave out.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
using Integers = std::vector<std::int64_t>;

HostTensor f32(const Shape& shape, const std::vector<double>& v) {
  return tensor(DType::kF32, shape, v);
}

HostTensor run(const OneNode& node, const std::vector<Operand>& operands) {
  const auto y = run_node(node, operands);
  EXPECT_TRUE(y.ok()) << node.op << ": " << y.error().message;
  return y.ok() ? y->at(0) : HostTensor();
}

TEST(ReduceImport, AxesAsAttributeAndInput) {
  const HostTensor x = f32({2, 2}, {1, 2, 3, 4});
  const Operand axes = known(int_tensor({1}, {-1}));
  EXPECT_THAT(
      values_of(
          run({.op = "ReduceSum", .opset = 11, .attributes = {attr("axes", Integers{-1})}}, {x})),
      ElementsAre(3, 7));
  EXPECT_THAT(values_of(run({.op = "ReduceSum", .opset = 13}, {x, axes})), ElementsAre(3, 7));
  EXPECT_THAT(
      values_of(
          run({.op = "ReduceMean", .opset = 13, .attributes = {attr("axes", Integers{0})}}, {x})),
      ElementsAre(2, 3));
  EXPECT_THAT(values_of(run({.op = "ReduceMean", .opset = 18}, {x, axes})), ElementsAre(1.5, 3.5));
  EXPECT_EQ(run({.op = "ReduceMax", .opset = 18, .attributes = {attr("keepdims", 0)}}, {x}).shape(),
            Shape{});
  EXPECT_THAT(refusal({.op = "ReduceSum", .opset = 13}, {x, int_tensor({1}, {0})}),
              HasSubstr("axes"));  // not known at import
  EXPECT_THAT(refusal({.op = "ReduceSum", .opset = 13}, {x, known(int_tensor({1}, {2}))}),
              HasSubstr("axis 2"));
  EXPECT_THAT(refusal({.op = "ReduceSum", .opset = 13}, {x, known(int_tensor({2}, {1, -1}))}),
              HasSubstr("given twice"));
}

TEST(ReduceImport, NoAxes) {
  const HostTensor x = f32({2}, {-2, 3});
  const OneNode noop = {
      .op = "ReduceSum", .opset = 18, .attributes = {attr("noop_with_empty_axes", 1)}};
  EXPECT_THAT(values_of(run(noop, {x})), ElementsAre(-2, 3));
  EXPECT_THAT(values_of(run(noop, {x, known(int_tensor({0}, {}))})), ElementsAre(-2, 3));
  EXPECT_THAT(
      values_of(run(
          {.op = "ReduceSumSquare", .opset = 18, .attributes = {attr("noop_with_empty_axes", 1)}},
          {x})),
      ElementsAre(4, 9));
}

TEST(ReduceImport, ComposedOfIntegersAndExtremes) {
  const HostTensor x = tensor(DType::kI32, {2}, {-3, 4});
  EXPECT_THAT(values_of(run({.op = "ReduceL1"}, {x})), ElementsAre(7));
  EXPECT_THAT(values_of(run({.op = "ReduceL2"}, {x})), ElementsAre(5));
  EXPECT_THAT(values_of(run({.op = "ReduceLogSumExp"}, {f32({2}, {1000, 1000})})),
              ElementsAre(static_cast<double>(static_cast<float>(1000 + std::log(2)))));
  EXPECT_THAT(values_of(run({.op = "ReduceLogSumExp"}, {f32({2}, {-kInf, -kInf})})),
              ElementsAre(-kInf));
  EXPECT_THAT(values_of(run({.op = "ReduceLogSumExp"}, {f32({2}, {kInf, 1})})), ElementsAre(kInf));
  EXPECT_THAT(values_of(run({.op = "ReduceLogSumExp"}, {f32({0}, {})})), ElementsAre(-kInf));
  // 300 squared overflows f16; the sum and its root do not.
  EXPECT_THAT(values_of(run({.op = "ReduceL2"}, {tensor(DType::kF16, {2}, {300, 400})})),
              ElementsAre(500));
}

TEST(SoftmaxImport, FlattensBeforeOpset13) {
  const HostTensor x = f32({1, 2, 2}, {1, 1, 1, 1});
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    const std::vector<double> old = values_of(run({.op = op, .opset = 11}, {x}));
    const std::vector<double> now = values_of(run({.op = op, .opset = 13}, {x}));
    const std::string name = op;
    if (name == "Hardmax") {
      EXPECT_THAT(old, ElementsAre(1, 0, 0, 0));
      EXPECT_THAT(now, ElementsAre(1, 0, 1, 0));
    } else {
      const bool log = name == "LogSoftmax";
      for (const double v : old) EXPECT_NEAR(log ? std::exp(v) : v, 0.25, 1e-6);
      for (const double v : now) EXPECT_NEAR(log ? std::exp(v) : v, 0.5, 1e-6);
    }
  }
  EXPECT_THAT(refusal({.op = "Softmax", .opset = 13, .attributes = {attr("axis", 3)}}, {x}),
              HasSubstr("axis 3"));
}

TEST(SoftmaxImport, EmptyAxes) {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    for (const std::int64_t opset : {11, 13}) {
      for (const Shape& shape : {Shape{2, 0}, Shape{0, 3}, Shape{2, 0, 3}, Shape{0}}) {
        for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
          const HostTensor y =
              run({.op = op, .opset = opset, .attributes = {attr("axis", axis)}}, {f32(shape, {})});
          EXPECT_EQ(y.shape(), shape) << op << opset << " axis " << axis;
        }
      }
    }
  }
}

// One rule for all that look for the largest or smallest element.
TEST(ReduceImport, ANanWinsOverNumbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const HostTensor x = f32({2, 3}, {5, nan, nan, -kInf, kInf, 0});
  const auto along = [&](const char* op) {
    return values_of(
        run({.op = op, .attributes = {attr("axis", std::int64_t{1}), attr("keepdims", 0)}}, {x}));
  };
  EXPECT_THAT(along("ArgMax"), ElementsAre(1, 1));
  EXPECT_THAT(along("ArgMin"), ElementsAre(1, 0));
  EXPECT_THAT(values_of(run({.op = "ArgMax",
                             .attributes = {attr("axis", std::int64_t{1}), attr("keepdims", 0),
                                            attr("select_last_index", 1)}},
                            {x})),
              ElementsAre(2, 1));
  EXPECT_THAT(values_of(run({.op = "Hardmax"}, {x})), ElementsAre(0, 1, 0, 0, 1, 0));
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    const std::vector<double> y = values_of(
        run({.op = op, .attributes = {attr("axes", Integers{1}), attr("keepdims", 0)}}, {x}));
    EXPECT_TRUE(std::isnan(y[0])) << op;
    EXPECT_EQ(std::abs(y[1]), kInf) << op;
  }
  const auto pooled =
      run_node({.op = "MaxPool",
                .attributes = {attr("kernel_shape", Integers{2}), attr("strides", Integers{1})},
                .outputs = 2},
               {f32({1, 2, 3}, {5, nan, nan, -kInf, kInf, 0})});
  ASSERT_TRUE(pooled.ok()) << pooled.error().message;
  EXPECT_TRUE(std::isnan(pooled->at(0).get_float(0)));
  EXPECT_THAT(values_of(pooled->at(1)), ElementsAre(1, 1, 4, 4));
}

TEST(BatchNormImport, FoldsToOneMultiplicationAndAddition) {
  Graph graph;
  graph.inputs = {value_info("x", DType::kF32, {1, 2, 3, 3})};
  for (const char* name : {"scale", "bias", "mean", "variance"}) {
    graph.initializers.push_back({name, f32({2}, {1, 2})});
  }
  graph.nodes = {
      make_node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"y"})};
  graph.outputs = {output("y")};
  const auto imported = import_model(make_model(std::move(graph), 9));
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  ASSERT_EQ(imported->nodes.size(), 2u);
  EXPECT_STREQ(imported->nodes[0].op->name, "mul");
  EXPECT_STREQ(imported->nodes[1].op->name, "add");
}

TEST(BatchNormImport, PerElementStatisticsOfOpset7) {
  const HostTensor x = f32({1, 1, 2}, {3, 5}), one = f32({1, 2}, {1, 1}),
                   zero = f32({1, 2}, {0, 0});
  const HostTensor mean = f32({1, 2}, {1, 2});
  EXPECT_THAT(values_of(run({.op = "BatchNormalization",
                             .opset = 7,
                             .attributes = {attr("spatial", 0), attr("epsilon", 0.0F)}},
                            {x, one, zero, mean, one})),
              ElementsAre(2, 3));
  EXPECT_THAT(refusal({.op = "BatchNormalization", .opset = 9},
                      {x, f32({3}, {}), f32({3}, {}), f32({3}, {}), f32({3}, {})}),
              HasSubstr("for 1 channels"));
}

TEST(GroupNormImport, ScalesGroupsThenChannels) {
  const HostTensor x = f32({1, 4, 1}, {1, 3, 10, 30});
  const std::vector<Attribute> attributes = {attr("num_groups", 2), attr("epsilon", 0.0F)};
  EXPECT_THAT(values_of(run({.op = "GroupNormalization", .opset = 18, .attributes = attributes},
                            {x, f32({2}, {1, 2}), f32({2}, {0, 1})})),
              ElementsAre(-1, 1, -1, 3));
  EXPECT_THAT(values_of(run({.op = "GroupNormalization", .opset = 21, .attributes = attributes},
                            {x, f32({4}, {1, 2, 3, 4}), f32({4}, {0, 0, 0, 1})})),
              ElementsAre(-1, 2, -3, 5));
  EXPECT_THAT(
      refusal({.op = "GroupNormalization", .opset = 21, .attributes = {attr("num_groups", 3)}},
              {x, f32({4}, {}), f32({4}, {})}),
      HasSubstr("4 channels do not make 3 groups"));
  EXPECT_THAT(refusal({.op = "GroupNormalization", .opset = 18, .attributes = attributes},
                      {x, f32({4}, {}), f32({4}, {})}),
              HasSubstr("for 2 channels"));
}

TEST(NormImport, OthersAndTheirEdges) {
  const HostTensor x = f32({2, 2}, {3, 4, 0, 0});
  const std::vector<double> lp = values_of(run({.op = "LpNormalization"}, {x}));
  EXPECT_NEAR(lp[0], 0.6, 1e-6);
  EXPECT_EQ(lp[2], 0);  // not 0 / 0
  EXPECT_NEAR(values_of(run({.op = "LpNormalization", .attributes = {attr("p", 1)}}, {x}))[1],
              4.0 / 7, 1e-6);
  const std::vector<double> rms =
      values_of(run({.op = "RMSNormalization", .opset = 23}, {x, f32({2}, {1, 2})}));
  EXPECT_NEAR(rms[1], 8 / std::sqrt(12.5), 1e-4);
  EXPECT_THAT(refusal({.op = "InstanceNormalization"}, {x, f32({2}, {}), f32({2}, {})}),
              HasSubstr("[N, C, d...]"));
  EXPECT_THAT(refusal({.op = "LpNormalization", .attributes = {attr("p", 3)}}, {x}),
              HasSubstr("p=3"));
}

TEST(LayerNormImport, StatisticsOfHalfPrecisionAreFloats) {
  const auto y = run_node({.op = "LayerNormalization", .outputs = 3},
                          {tensor(DType::kF16, {1, 2}, {1, 3}), tensor(DType::kF16, {2}, {1, 1})});
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_EQ(y->at(0).dtype(), DType::kF16);
  EXPECT_EQ(y->at(1).dtype(), DType::kF32);
  EXPECT_EQ(y->at(1).shape(), (Shape{1, 1}));
  EXPECT_THAT(values_of(y->at(1)), ElementsAre(2));
  EXPECT_NEAR(values_of(y->at(2))[0], 1, 1e-5);
}

TEST(LossImport, RefusesShapesThatDoNotFit) {
  const HostTensor scores = f32({2, 3}, {});
  EXPECT_THAT(refusal({.op = "SoftmaxCrossEntropyLoss"}, {scores, int_tensor({3}, {0, 0, 0})}),
              HasSubstr("labels of shape 3"));
  EXPECT_THAT(
      refusal({.op = "NegativeLogLikelihoodLoss"}, {scores, int_tensor({2}, {0, 0}), f32({2}, {})}),
      HasSubstr("weights of shape 2 for 3 classes"));
  EXPECT_THAT(refusal({.op = "NegativeLogLikelihoodLoss",
                       .attributes = {attr("reduction", std::string("max"))}},
                      {scores, int_tensor({2}, {0, 0})}),
              HasSubstr("reduction=max"));
}

}  // namespace
}  // namespace tessera::onnx::testing
