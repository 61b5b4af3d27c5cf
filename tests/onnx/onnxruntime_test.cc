// Quantised operators against what ONNX Runtime computed (onnxruntime_cases.py).
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::HasSubstr;

const std::map<std::string, std::vector<double>>& runtime_results() {
  static const std::map<std::string, std::vector<double>> kResults = {
#include "onnxruntime_cases.inc"
  };
  return kResults;
}

// As the script makes them.
HostTensor pattern(DType t, const Shape& shape, std::int64_t step) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < elements(shape); ++i) {
    const auto n = static_cast<double>((i * step + 11) % 251);
    values.push_back(t == DType::kF32   ? (n - 125) / 16
                     : t == DType::kI32 ? n * 7 - 800
                     : t == DType::kI8  ? n - 125
                                        : n);
  }
  return tensor(t, shape, values);
}
HostTensor bytes(const Shape& shape, std::int64_t step) { return pattern(DType::kU8, shape, step); }
HostTensor signed_bytes(const Shape& shape, std::int64_t step) {
  return pattern(DType::kI8, shape, step);
}
HostTensor f32(const std::vector<double>& v) {
  return tensor(DType::kF32, v.size() == 1 ? Shape{} : Shape{static_cast<std::int64_t>(v.size())},
                v);
}
HostTensor u8(double v) { return tensor(DType::kU8, {}, {v}); }
HostTensor i8(const std::vector<double>& v) {
  return tensor(DType::kI8, v.size() == 1 ? Shape{} : Shape{static_cast<std::int64_t>(v.size())},
                v);
}

// The first input is given, the others are constants. `apart`: by how much integers may differ.
void expect_same(const std::string& name, OneNode node, const std::vector<HostTensor>& inputs,
                 double apart = 0) {
  std::vector<Operand> operands = {inputs[0]};
  for (std::size_t i = 1; i < inputs.size(); ++i) operands.push_back(known(inputs[i]));
  const auto y = run_node(node, operands);
  ASSERT_TRUE(y.ok()) << name << ": " << y.error().message;
  const double off = is_float(y->at(0).dtype()) ? 2e-5 : apart;
  EXPECT_THAT(values_of(y->at(0)),
              ::testing::Pointwise(::testing::DoubleNear(off), runtime_results().at(name)))
      << name;
}

OneNode plain(const std::string& op, std::vector<Attribute> attributes = {},
              std::size_t outputs = 1) {
  return {.op = op, .attributes = std::move(attributes), .outputs = outputs};
}
OneNode microsoft(const std::string& op, std::vector<Attribute> attributes = {}) {
  return {.op = op, .attributes = std::move(attributes), .outputs = 1, .domain = "com.microsoft"};
}

Attribute ints(const std::string& name, std::vector<std::int64_t> values) {
  return {name, std::move(values), ""};
}

TEST(OnnxRuntime, ProductsOfBytes) {
  expect_same("QLinearConv", plain("QLinearConv", {attr("group", 2), ints("pads", {1, 1, 1, 1})}),
              {bytes({1, 4, 5, 5}, 37), f32({0.05}), u8(131), signed_bytes({2, 2, 3, 3}, 29),
               f32({0.02, 0.05}), i8({0, 0}), f32({1.5}), u8(120), pattern(DType::kI32, {2}, 91)});
  expect_same("QLinearMatMul", plain("QLinearMatMul"),
              {bytes({3, 7}, 37), f32({0.05}), u8(100), signed_bytes({7, 5}, 29), f32({0.02}),
               i8({3}), f32({0.4}), u8(128)});
  expect_same("QGemm", microsoft("QGemm", {attr("transB", 1)}),
              {bytes({3, 7}, 37), f32({0.05}), u8(100), signed_bytes({5, 7}, 29),
               f32({0.02, 0.03, 0.01, 0.05, 0.02}), i8({0, 0, 0, 0, 0}),
               pattern(DType::kI32, {5}, 91), f32({0.9}), u8(128)});
  expect_same(
      "QGemmFloat", microsoft("QGemm", {attr("alpha", 0.5F)}),
      {bytes({3, 7}, 37), f32({0.05}), u8(100), signed_bytes({7, 5}, 29), f32({0.02}), i8({3})});
  expect_same("MatMulInteger", plain("MatMulInteger"),
              {bytes({3, 7}, 37), signed_bytes({7, 5}, 29), u8(100), i8({1, 2, 3, 4, 5})});
  expect_same("ConvInteger", plain("ConvInteger", {ints("pads", {1, 1, 1, 1})}),
              {bytes({1, 2, 5, 5}, 37), bytes({3, 2, 3, 3}, 29), u8(100), u8(7)});
  expect_same(
      "DynamicQuantizeMatMul", microsoft("DynamicQuantizeMatMul"),
      {pattern(DType::kF32, {3, 7}, 37), signed_bytes({7, 5}, 29),
       f32({0.02, 0.03, 0.01, 0.05, 0.02}), i8({0, 0, 0, 0, 0}), pattern(DType::kF32, {5}, 91)});
}

TEST(OnnxRuntime, PointwiseOnBytes) {
  expect_same("QLinearAdd", microsoft("QLinearAdd"),
              {bytes({3, 5}, 37), f32({0.05}), u8(100), bytes({5}, 29), f32({0.02}), u8(3),
               f32({0.07}), u8(90)});
  expect_same("QLinearMul", microsoft("QLinearMul"),
              {signed_bytes({3, 5}, 37), f32({0.05}), i8({10}), signed_bytes({3, 5}, 29),
               f32({0.02}), i8({3}), f32({0.15}), i8({-5})});
  expect_same("QLinearSigmoid", microsoft("QLinearSigmoid"),
              {bytes({16}, 37), f32({0.05}), u8(100), f32({1.0 / 256}), u8(0)});
  expect_same("QLinearLeakyRelu", microsoft("QLinearLeakyRelu", {attr("alpha", 0.1F)}),
              {bytes({16}, 37), f32({0.05}), u8(100), f32({0.03}), u8(70)});
  expect_same("QLinearConcat", microsoft("QLinearConcat", {attr("axis", 1)}),
              {f32({0.04}), u8(100), bytes({2, 3}, 37), f32({0.05}), u8(90), bytes({2, 2}, 29),
               f32({0.02}), u8(10)});
}

TEST(OnnxRuntime, ReductionsOfBytes) {
  expect_same(
      "QLinearAveragePool",
      microsoft("QLinearAveragePool", {ints("kernel_shape", {3, 3}), ints("pads", {1, 1, 1, 1}),
                                       ints("strides", {2, 2})}),
      {bytes({1, 2, 5, 5}, 37), f32({0.05}), u8(100), f32({0.04}), u8(90)});
  expect_same("QLinearGlobalAveragePool", microsoft("QLinearGlobalAveragePool"),
              {bytes({1, 3, 5, 5}, 37), f32({0.05}), u8(100), f32({0.01}), u8(90)});
  // Its exponentials are integers from a table.
  expect_same("QLinearSoftmax", microsoft("QLinearSoftmax", {attr("opset", 13), attr("axis", -1)}),
              {bytes({3, 7}, 37), f32({0.02}), u8(100), f32({1.0 / 256}), u8(0)}, 1);
}

TEST(OnnxRuntime, Attention) {
  const std::vector<HostTensor> operands = {bytes({2, 3, 8}, 37), signed_bytes({8, 24}, 29),
                                            pattern(DType::kF32, {24}, 91), f32({0.01}),
                                            f32({0.01})};
  const auto with_mask = [&](const HostTensor& mask) {
    std::vector<HostTensor> all = operands;
    all.insert(all.end(), {mask, u8(100), i8({0})});
    return all;
  };
  expect_same("QAttention", microsoft("QAttention", {attr("num_heads", 2)}),
              with_mask(tensor(DType::kI32, {2, 3}, {1, 1, 0, 1, 1, 1})));
  expect_same("QAttentionCausal",
              microsoft("QAttention", {attr("num_heads", 2), attr("unidirectional", 1)}),
              with_mask(tensor(DType::kI32, {2}, {2, 3})));
}

TEST(OnnxRuntime, SixteenBitsAndDynamicScales) {
  expect_same("DynamicQuantizeLinear", plain("DynamicQuantizeLinear", {}, 3),
              {pattern(DType::kF32, {3, 5}, 37)});
  expect_same("QuantizeLinear16", microsoft("QuantizeLinear", {attr("axis", 0)}),
              {pattern(DType::kF32, {3, 5}, 37), f32({0.001, 0.0001, 0.01}),
               tensor(DType::kU16, {3}, {30000, 32768, 0})});
  HostTensor wide(DType::kI16, {3, 5});
  const HostTensor numbers = pattern(DType::kI32, {3, 5}, 37);
  for (std::int64_t i = 0; i < 15; ++i) wide.set_int(i, numbers.get_int(i) * 9);
  expect_same("DequantizeLinear16", microsoft("DequantizeLinear"),
              {wide, f32({0.001}), tensor(DType::kI16, {}, {-300})});
}

TEST(OnnxRuntime, WhatIsRefusedHasAReason) {
  const std::vector<Operand> pool = {bytes({1, 2, 5, 5}, 37), f32({0.05}), u8(100), f32({0.04})};
  EXPECT_THAT(refusal(microsoft("QLinearAveragePool",
                                {ints("kernel_shape", {3, 3}), attr("channels_last", 1)}),
                      pool),
              HasSubstr("channels_last"));
  std::vector<Operand> operands = {bytes({2, 3, 8}, 37), signed_bytes({8, 24}, 29),
                                   pattern(DType::kF32, {24}, 91), f32({0.01}), f32({0.01})};
  EXPECT_THAT(refusal(microsoft("QAttention", {attr("num_heads", 5)}), operands),
              HasSubstr("24 columns for 5 heads"));
  EXPECT_THAT(
      refusal(microsoft("QAttention", {attr("num_heads", 2), attr("do_rotary", 1)}), operands),
      HasSubstr("do_rotary"));
  operands.push_back(tensor(DType::kI32, {5}, {1, 1, 1, 1, 1}));
  EXPECT_THAT(refusal(microsoft("QAttention", {attr("num_heads", 2)}), operands),
              HasSubstr("a mask of shape 5"));
  // More scores than a tensor may have: no mask is made for them.
  const std::int64_t words = std::int64_t{1} << 24;
  const std::vector<Operand> endless = {HostTensor(DType::kU8, {1, words, 1}),
                                        signed_bytes({1, 3}, 1),
                                        pattern(DType::kF32, {3}, 91),
                                        f32({0.01}),
                                        f32({0.01}),
                                        tensor(DType::kI32, {1}, {1})};
  EXPECT_THAT(
      refusal(microsoft("QAttention", {attr("num_heads", 1), attr("unidirectional", 1)}), endless),
      HasSubstr("too large"));
  EXPECT_THAT(refusal(microsoft("QGemm"),
                      {bytes({7}, 37), f32({1}), u8(0), bytes({7, 2}, 3), f32({1}), u8(0)}),
              HasSubstr("matrices are needed"));
}

}  // namespace
}  // namespace tessera::onnx::testing
