#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_op.h"

namespace tessera::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

HostTensor run(const std::string& op, const std::vector<HostTensor>& inputs, const Attrs& attrs) {
  const auto y = run_op(op, inputs, attrs);
  EXPECT_TRUE(y.ok()) << y.error().message;
  return *y;
}

HostTensor random(DType t, const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return random_tensor(t, shape, rng);
}

Attrs norm_attrs(std::int64_t axis, double epsilon) {
  return {{"axis", axis}, {"epsilon", epsilon}};
}

TEST(Softmax, AlongAnyAxis) {
  const HostTensor x = random(DType::kF64, {2, 3, 2}, 1);
  const HostTensor y = run("softmax", {x}, {{"axis", std::int64_t{1}}});
  for (const std::int64_t a : {0, 1}) {
    for (const std::int64_t b : {0, 1}) {
      double sum = 0;
      for (const std::int64_t k : {0, 1, 2}) sum += std::exp(x.get_float(a * 6 + k * 2 + b));
      for (const std::int64_t k : {0, 1, 2}) {
        const std::int64_t at = a * 6 + k * 2 + b;
        EXPECT_NEAR(y.get_float(at), std::exp(x.get_float(at)) / sum, 1e-14);
      }
    }
  }
}

TEST(Softmax, Extremes) {
  const Attrs attrs = {{"axis", std::int64_t{0}}};
  EXPECT_THAT(values_of(run("softmax", {tensor(DType::kF32, {2}, {1e30, 1e30})}, attrs)),
              ElementsAre(0.5, 0.5));
  EXPECT_THAT(values_of(run("softmax", {tensor(DType::kF32, {2}, {-kInf, 3})}, attrs)),
              ElementsAre(0, 1));
  for (const double v :
       values_of(run("softmax", {tensor(DType::kF32, {2}, {-kInf, -kInf})}, attrs))) {
    EXPECT_TRUE(std::isnan(v));
  }
  EXPECT_EQ(run("softmax", {tensor(DType::kF32, {0}, {})}, attrs).shape(), (Shape{0}));
  EXPECT_THAT(values_of(run("softmax", {tensor(DType::kF16, {2}, {9, 9})}, attrs)),
              ElementsAre(0.5, 0.5));
}

TEST(LayerNorm, NormalisesTheLastAxesTogether) {
  const HostTensor x = random(DType::kF64, {2, 2, 3}, 2);
  const HostTensor scale = random(DType::kF64, {2, 1}, 3), bias = random(DType::kF64, {3}, 4);
  const HostTensor y = run("layernorm", {x, scale, bias}, norm_attrs(1, 0.1));
  for (std::int64_t n = 0; n < 2; ++n) {
    double sum = 0, squares = 0;
    for (std::int64_t k = 0; k < 6; ++k) sum += x.get_float(n * 6 + k);
    for (std::int64_t k = 0; k < 6; ++k) squares += std::pow(x.get_float(n * 6 + k) - sum / 6, 2);
    for (std::int64_t k = 0; k < 6; ++k) {
      const double normal = (x.get_float(n * 6 + k) - sum / 6) / std::sqrt(squares / 6 + 0.1);
      EXPECT_NEAR(y.get_float(n * 6 + k), normal * scale.get_float(k / 3) + bias.get_float(k % 3),
                  1e-13);
    }
  }
}

TEST(LayerNorm, FactorsAreOptional) {
  const HostTensor x = tensor(DType::kF32, {1, 2}, {1, 3});
  EXPECT_THAT(values_of(run("layernorm", {x}, norm_attrs(1, 0))), ElementsAre(-1, 1));
  const HostTensor bias = tensor(DType::kF16, {}, {5});
  const auto y = evaluate_node(*find_op("layernorm"), norm_attrs(1, 0), {&x, nullptr, &bias});
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_THAT(values_of(y->at(0)), ElementsAre(4, 6));
}

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  const HostTensor x = tensor(DType::kF32, {2, 2}, {3, 4, 0, 0});
  const double rms = std::sqrt(12.5);
  const std::vector<double> y = values_of(run("rmsnorm", {x}, norm_attrs(1, 1e-12)));
  EXPECT_NEAR(y[0], 3 / rms, 1e-6);
  EXPECT_NEAR(y[1], 4 / rms, 1e-6);
  EXPECT_EQ(y[2], 0);
  const HostTensor scale = tensor(DType::kF32, {2}, {2, -1});
  const std::vector<double> z = values_of(run("rmsnorm", {x, scale}, norm_attrs(1, 1e-12)));
  EXPECT_NEAR(z[0], 6 / rms, 1e-6);
  EXPECT_NEAR(z[1], -4 / rms, 1e-6);
}

TEST(Lrn, SumsSquaresAcrossChannels) {
  const HostTensor x = random(DType::kF64, {1, 5, 2}, 5);
  for (const std::int64_t size : {1, 2, 3, 4, 9}) {
    const HostTensor y =
        run("lrn", {x}, {{"size", size}, {"alpha", 0.5}, {"beta", 0.75}, {"bias", 2.0}});
    for (std::int64_t c = 0; c < 5; ++c) {
      double squares = 0;
      for (std::int64_t k = c - (size - 1) / 2; k <= c + size / 2; ++k) {
        if (k >= 0 && k < 5) squares += std::pow(x.get_float(k * 2), 2);
      }
      const double base = 2 + 0.5 / static_cast<double>(size) * squares;
      EXPECT_NEAR(y.get_float(c * 2), x.get_float(c * 2) / std::pow(base, 0.75), 1e-14) << size;
    }
  }
}

TEST(Normalization, RefusesWhatDoesNotFit) {
  const HostTensor x = tensor(DType::kF32, {2, 3}, {}), i = tensor(DType::kI32, {2, 3}, {});
  EXPECT_THAT(refusal("softmax", {x}, {{"axis", std::int64_t{2}}}), HasSubstr("axis 2"));
  EXPECT_THAT(refusal("softmax", {tensor(DType::kF32, {}, {})}, {{"axis", std::int64_t{0}}}),
              HasSubstr("axis 0 of a tensor of rank 0"));
  EXPECT_THAT(refusal("softmax", {i}, {{"axis", std::int64_t{0}}}), HasSubstr("i32"));
  EXPECT_THAT(refusal("layernorm", {x, tensor(DType::kF32, {2}, {})}, norm_attrs(1, 1)),
              HasSubstr("factor 1 of shape 2 does not broadcast to 2x3"));
  EXPECT_THAT(refusal("layernorm", {x, tensor(DType::kF32, {1, 2, 3}, {})}, norm_attrs(1, 1)),
              HasSubstr("does not broadcast"));
  EXPECT_THAT(refusal("rmsnorm", {x, i}, norm_attrs(0, 1)), HasSubstr("factor 1 is i32"));
  const Attrs lrn = {{"size", std::int64_t{0}}, {"alpha", 1.0}, {"beta", 1.0}, {"bias", 1.0}};
  EXPECT_THAT(refusal("lrn", {x}, lrn), HasSubstr("window of 0"));
  EXPECT_THAT(refusal("lrn", {tensor(DType::kF32, {2}, {})}, lrn), HasSubstr("[N, C, ...]"));
}

}  // namespace
}  // namespace tessera::graph
