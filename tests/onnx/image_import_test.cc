// Convolutions and pools: attributes that the backend cases do not cover.
#include <gtest/gtest.h>

#include "tests/onnx/node_model.h"

namespace tessera::onnx::testing {
namespace {

using Numbers = std::vector<double>;
using Ints = std::vector<std::int64_t>;

HostTensor bytes(const Shape& shape, const Ints& values, DType t) {
  HostTensor out(t, shape);
  for (std::size_t i = 0; i < values.size(); ++i)
    out.set_int(static_cast<std::int64_t>(i), values[i]);
  return out;
}

HostTensor ones(const Shape& shape) {
  HostTensor t(DType::kF32, shape);
  for (std::int64_t i = 0; i < t.size(); ++i) t.set_float(i, 1);
  return t;
}

TEST(Conv, SameLowerPadsAtTheBeginning) {
  const auto same = [](const std::string& which) {
    return values_of(
        run_case({.op = "Conv",
                  .attributes = {attr("auto_pad", which)},
                  .inputs = {counting({1, 1, 3}, DType::kF32, 1), ones({1, 1, 2})}})[0]);
  };
  EXPECT_EQ(same("SAME_UPPER"), (Numbers{3, 5, 3}));
  EXPECT_EQ(same("SAME_LOWER"), (Numbers{1, 3, 5}));
  EXPECT_EQ(same("VALID"), (Numbers{3, 5}));
}

TEST(Conv, WeightsMayBeComputedAndBiasIsPerChannel) {
  const auto y = run_case(
      {.op = "Conv", .inputs = {ones({1, 1, 2}), ones({2, 1, 2}), float_tensor({2}, {10, 20})}});
  EXPECT_EQ(values_of(y[0]), (Numbers{12, 22}));
}

TEST(Conv, Refusals) {
  const auto refused = [](std::vector<Attribute> attributes, const Shape& bias = {1}) {
    return refusal({.op = "Conv",
                    .attributes = std::move(attributes),
                    .inputs = {ones({1, 1, 4, 4}), ones({1, 1, 2, 2}), ones(bias)}});
  };
  EXPECT_EQ(refused({}), "");
  EXPECT_NE(refused({attr("auto_pad", std::string("SOME"))}).find("SOME"), std::string::npos);
  EXPECT_NE(refused({attr("pads", Ints{0, 0, 1})}).find("pads has 3"), std::string::npos);
  EXPECT_NE(refused({attr("pads", Ints{0, 0, 0, -1})}).find("out of range"), std::string::npos);
  EXPECT_NE(refused({attr("kernel_shape", Ints{3, 3})}).find("kernel of 3x3"), std::string::npos);
  EXPECT_NE(refused({attr("strides", Ints{std::int64_t{1} << 40, 1})}).find("out of range"),
            std::string::npos);
  EXPECT_NE(refused({}, {2}).find("bias"), std::string::npos);
  EXPECT_NE(refused({attr("group", std::int64_t{1} << 62)}).find("groups"), std::string::npos);
}

TEST(ConvTranspose, OutputShapeMayExceedTheFullSize) {
  const auto y = run_case({.op = "ConvTranspose",
                           .attributes = {attr("strides", Ints{2}), attr("output_shape", Ints{6})},
                           .inputs = {counting({1, 1, 2}, DType::kF32, 1), ones({1, 1, 2})}});
  EXPECT_EQ(values_of(y[0]), (Numbers{1, 1, 2, 2, 0, 0}));
}

TEST(ConvInteger, PaddingIsTheZeroPoint) {
  NodeCase c{.op = "ConvInteger",
             .attributes = {attr("pads", Ints{1, 1})},
             .inputs = {bytes({1, 1, 2}, {5, 7}, DType::kU8)},
             .constants = {bytes({1, 1, 2}, {1, 2}, DType::kU8), bytes({}, {4}, DType::kU8)}};
  EXPECT_EQ(values_of(run_case(c)[0]), (Numbers{2, 7, 3}));
  c.constants.push_back(bytes({1}, {3}, DType::kU8));  // weights -2, -1
  EXPECT_EQ(values_of(run_case(c)[0]), (Numbers{-1, -5, -6}));
}

TEST(ConvInteger, RunTimeZeroPoints) {
  const auto y = run_case(
      {.op = "ConvInteger",
       .attributes = {attr("pads", Ints{1, 1})},
       .inputs = {bytes({1, 1, 2}, {5, 7}, DType::kU8), bytes({1, 1, 2}, {1, 2}, DType::kU8),
                  bytes({}, {4}, DType::kU8), bytes({1}, {3}, DType::kU8)}});
  EXPECT_EQ(values_of(y[0]), (Numbers{-1, -5, -6}));
}

TEST(QLinearConv, PerChannelScalesAndSaturation) {
  const HostTensor one = float_tensor({}, {1});
  const auto y =
      run_case({.op = "QLinearConv",
                .inputs = {bytes({1, 1, 1}, {100}, DType::kU8), one, bytes({}, {0}, DType::kU8),
                           bytes({2, 1, 1}, {1, 1}, DType::kI8), float_tensor({2}, {0.505, 4}),
                           bytes({2}, {0, 0}, DType::kI8), one, bytes({}, {10}, DType::kU8),
                           bytes({2}, {0, 1}, DType::kI32)}});
  EXPECT_EQ(y[0].dtype(), DType::kU8);
  EXPECT_EQ(y[0].get_int(0), 60);  // 50.5 rounds to even
  EXPECT_EQ(y[0].get_int(1), 255);
}

TEST(Pools, CeilModeDropsAWindowThatStartsInThePadding) {
  const auto y =
      run_case({.op = "MaxPool",
                .attributes = {attr("kernel_shape", Ints{1}), attr("strides", Ints{2}),
                               attr("pads", Ints{0, 1}), attr("ceil_mode", std::int64_t{1})},
                .inputs = {counting({1, 1, 4})}});
  EXPECT_EQ(values_of(y[0]), (Numbers{0, 2}));
}

TEST(Pools, CeilModeDoesNotCountWhatItAdds) {
  const auto y = run_case({.op = "AveragePool",
                           .opset = 19,
                           .attributes = {attr("kernel_shape", Ints{2}), attr("strides", Ints{2}),
                                          attr("ceil_mode", std::int64_t{1}),
                                          attr("count_include_pad", std::int64_t{1})},
                           .inputs = {counting({1, 1, 3}, DType::kF32, 1)}});
  EXPECT_EQ(values_of(y[0]), (Numbers{1.5, 3}));
}

TEST(Pools, LpPools) {
  const HostTensor x = float_tensor({1, 1, 2, 2}, {3, -4, 0, 12});
  const std::vector<Attribute> kernel = {attr("kernel_shape", Ints{1, 2})};
  EXPECT_EQ(values_of(run_case({.op = "LpPool", .attributes = kernel, .inputs = {x}})[0]),
            (Numbers{5, 12}));
  std::vector<Attribute> first = kernel;
  first.push_back(attr("p", std::int64_t{1}));
  EXPECT_EQ(values_of(run_case({.op = "LpPool", .attributes = first, .inputs = {x}})[0]),
            (Numbers{7, 12}));
  EXPECT_EQ(values_of(run_case({.op = "GlobalLpPool", .inputs = {x}})[0]), (Numbers{13}));
  EXPECT_NE(
      refusal({.op = "GlobalLpPool", .attributes = {attr("p", std::int64_t{0})}, .inputs = {x}})
          .find("p = 0"),
      std::string::npos);
}

TEST(Pools, Refusals) {
  EXPECT_NE(refusal({.op = "MaxPool", .inputs = {counting({1, 1, 4})}}).find("kernel_shape"),
            std::string::npos);
  EXPECT_NE(refusal({.op = "GlobalMaxPool", .inputs = {counting({4, 4})}}).find("image"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::onnx::testing
