// Every integer group equals its definition bit for bit (docs/guide/quantised.md): the exact sum of
// products in i32, converted once, times f32(sx * sw), plus the bias, plus what is added in f32,
// divided by sy, rounded half to even, saturated.
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/quantize/samples.h"
#include "tests/onnx/model_builder.h"

namespace tessera::app {
namespace {

using onnx::testing::make_graph;
using onnx::testing::make_model;
using onnx::testing::make_node;
using onnx::testing::value_info;

struct Group {
  const char* name;
  const char* op = "Conv";
  Shape x = {}, w = {};  // of Conv [n, c, h, w] and [o, c / groups, kh, kw]; else matrices
  std::int64_t groups = 1, stride = 1, pad = 0;
  bool per_channel = true, bias = true, added = false, relu = false;
  std::int64_t x_zero = 0, w_zero = 0, y_zero = 0;
  // Powers of two make ties, which are rounded to even.
  float sx = 0.0173F, sw = 0.0041F, sy = 0.031F;
  DType x_type = DType::kU8, y_type = DType::kU8;
};

void PrintTo(const Group& g, std::ostream* out) { *out << g.name; }

HostTensor bytes(DType t, const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  HostTensor out(t, shape);
  for (std::int64_t i = 0; i < out.size(); ++i)
    out.set_int(i, rng.below(256) - (t == DType::kI8 ? 128 : 0));
  return out;
}

HostTensor scalar(DType t, double value) {
  HostTensor out(t, {});
  is_float(t) ? out.set_float(0, value) : out.set_int(0, static_cast<std::int64_t>(value));
  return out;
}

class Case {
 public:
  explicit Case(const Group& g) : g_(g), conv_(std::string(g.op) == "Conv") {
    outputs_ = conv_ ? g.w[0] : g.w[1];
    y_ = conv_ ? Shape{g.x[0], g.w[0], size(2), size(3)} : Shape{g.x[0], g.w[1]};
    x_ = bytes(g.x_type, g.x, 1);
    w_ = bytes(DType::kI8, g.w, 2);
    added_ = bytes(DType::kU8, y_, 3);
    scales_ = HostTensor(DType::kF32, g.per_channel ? Shape{outputs_} : Shape{});
    for (std::int64_t i = 0; i < scales_.size(); ++i)
      scales_.as<float>()[i] = g.sw * static_cast<float>(1 + i % 3);
    Rng rng(4);
    bias_ = random_tensor(DType::kF32, {outputs_}, rng);
  }

  onnx::Model model() const {
    std::vector<onnx::Initializer> constants = {
        {"sx", scalar(DType::kF32, g_.sx)},
        {"zx", scalar(g_.x_type, static_cast<double>(g_.x_zero))},
        {"w", w_},
        {"sw", scales_},
        {"zw", HostTensor(DType::kI8, scales_.shape())},
        {"sy", scalar(DType::kF32, g_.sy)},
        {"zy", scalar(g_.y_type, static_cast<double>(g_.y_zero))},
        {"b", bias_},
        {"sr", scalar(DType::kF32, kAddedScale)},
        {"zr", scalar(DType::kU8, kAddedZero)}};
    auto& zeros = std::get<HostTensor>(constants[4].value);
    for (std::int64_t i = 0; i < zeros.size(); ++i) zeros.set_int(i, g_.w_zero);
    std::vector<onnx::Attribute> how;
    if (conv_) {
      how = {{"group", g_.groups, ""},
             {"strides", Shape{g_.stride, g_.stride}, ""},
             {"pads", Shape{g_.pad, g_.pad, g_.pad, g_.pad}, ""}};
    }
    std::vector<std::string> operands = {"xd", "wd"};
    if (g_.bias) operands.emplace_back("b");
    std::vector<onnx::Node> nodes = {make_node("DequantizeLinear", {"x", "sx", "zx"}, {"xd"}),
                                     make_node("DequantizeLinear", {"w", "sw", "zw"}, {"wd"},
                                               {{"axis", std::int64_t{conv_ ? 0 : 1}, ""}}),
                                     make_node(g_.op, operands, {"p"}, how)};
    std::string at = "p";
    if (g_.added) {
      nodes.push_back(make_node("DequantizeLinear", {"r", "sr", "zr"}, {"rd"}));
      nodes.push_back(make_node("Add", {at, "rd"}, {"s"}));
      at = "s";
    }
    if (g_.relu) {
      nodes.push_back(make_node("Relu", {at}, {"u"}));
      at = "u";
    }
    nodes.push_back(make_node("QuantizeLinear", {at, "sy", "zy"}, {"y"}));
    std::vector<onnx::ValueInfo> inputs = {value_info("x", g_.x_type, g_.x)};
    if (g_.added) inputs.push_back(value_info("r", DType::kU8, y_));
    return make_model(make_graph(inputs, nodes, {"y"}, constants));
  }

  Sample sample() const {
    Sample out = {{"x", x_}};
    if (g_.added) out["r"] = added_;
    return out;
  }

  // The definition, one operation after the other in f32.
  HostTensor defined() const {
    HostTensor y(g_.y_type, y_);
    const std::int64_t low = g_.y_type == DType::kI8 ? -128 : 0;
    for (std::int64_t i = 0; i < y.size(); ++i) {
      const std::int64_t o = conv_ ? i / (y_[2] * y_[3]) % y_[1] : i % y_[1];
      const float sw = scales_.as<float>()[g_.per_channel ? o : 0];
      const volatile float scale = g_.sx * sw;  // volatile: no operation joins the next one
      volatile float v = static_cast<float>(sum(i, o)) * scale;
      if (g_.bias) v = v + bias_.as<float>()[o];
      if (g_.added) {
        const volatile float r =
            static_cast<float>(added_.get_int(i) - std::int64_t{kAddedZero}) * kAddedScale;
        v = v + r;
      }
      if (g_.relu && v < 0) v = 0;
      v = v / g_.sy;
      v = std::nearbyint(float{v}) + static_cast<float>(g_.y_zero);
      y.set_int(i, static_cast<std::int64_t>(std::clamp(float{v}, static_cast<float>(low),
                                                        static_cast<float>(low + 255))));
    }
    return y;
  }

 private:
  static constexpr float kAddedScale = 0.027F;
  static constexpr int kAddedZero = 113;

  std::int64_t size(std::size_t d) const {
    return (g_.x[d] + 2 * g_.pad - g_.w[d]) / g_.stride + 1;
  }

  std::int32_t sum(std::int64_t i, std::int64_t o) const {
    const auto product = [&](std::int64_t x, std::int64_t w) {
      return static_cast<std::int32_t>((x_.get_int(x) - g_.x_zero) * (w_.get_int(w) - g_.w_zero));
    };
    std::int32_t s = 0;
    if (!conv_) {
      for (std::int64_t k = 0; k < g_.x[1]; ++k)
        s += product(i / y_[1] * g_.x[1] + k, k * g_.w[1] + o);
      return s;
    }
    const std::int64_t n = i / (y_[1] * y_[2] * y_[3]), row = i / y_[3] % y_[2], column = i % y_[3];
    const std::int64_t first = o / (g_.w[0] / g_.groups) * g_.w[1];
    for (std::int64_t c = 0; c < g_.w[1]; ++c) {
      for (std::int64_t a = 0; a < g_.w[2]; ++a) {
        for (std::int64_t b = 0; b < g_.w[3]; ++b) {
          const std::int64_t h = row * g_.stride + a - g_.pad, w = column * g_.stride + b - g_.pad;
          if (h < 0 || w < 0 || h >= g_.x[2] || w >= g_.x[3]) continue;
          s += product(((n * g_.x[1] + first + c) * g_.x[2] + h) * g_.x[3] + w,
                       ((o * g_.w[1] + c) * g_.w[2] + a) * g_.w[3] + b);
        }
      }
    }
    return s;
  }

  const Group& g_;
  bool conv_;
  std::int64_t outputs_;
  Shape y_;
  HostTensor x_, w_, added_, scales_, bias_;
};

void expect_equal(const HostTensor& got, const HostTensor& want, const char* what) {
  ASSERT_EQ(got.shape(), want.shape());
  std::int64_t different = 0, first = -1;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    if (got.get_int(i) == want.get_int(i)) continue;
    if (different++ == 0) first = i;
  }
  EXPECT_EQ(different, 0) << what << ", of " << want.size() << "; element " << first << " is "
                          << got.get_int(first) << " instead of " << want.get_int(first);
}

class IntegerFormula : public ::testing::TestWithParam<Group> {};

TEST_P(IntegerFormula, IsEqualBitForBit) {
  const Case c(GetParam());
  const HostTensor want = c.defined();
  CompileOptions options;
  options.integer_products = 1;  // bytes, whatever is faster
  auto runner = SampleRunner::open(c.model(), options);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  ASSERT_TRUE(runner->run(c.sample()).ok());
  expect_equal(runner->output(0), want, "compiled");
  options.import.values = c.sample();
  const auto folded = import_graph(c.model(), options);
  ASSERT_TRUE(folded.ok()) << folded.error().message;
  const HostTensor* interpreted = folded->constant(folded->outputs[0]);
  ASSERT_NE(interpreted, nullptr);
  expect_equal(*interpreted, want, "interpreted");
}

constexpr float kHalf = 0.5F, kQuarter = 0.25F;

INSTANTIATE_TEST_SUITE_P(
    Groups, IntegerFormula,
    ::testing::Values(
        Group{.name = "odd", .x = {1, 5, 7, 9}, .w = {11, 5, 3, 3}, .pad = 1},
        Group{.name = "ties",
              .x = {1, 8, 6, 6},
              .w = {16, 8, 1, 1},
              .bias = false,
              .y_zero = 128,
              .sx = kHalf,
              .sw = kQuarter,
              .sy = 64},
        Group{.name = "zero_points",
              .x = {1, 16, 7, 7},
              .w = {24, 16, 3, 3},
              .pad = 1,
              .x_zero = 131,
              .w_zero = 3,
              .y_zero = 77},
        Group{.name = "residual",
              .x = {1, 16, 9, 7},
              .w = {32, 16, 3, 3},
              .pad = 1,
              .added = true,
              .relu = true,
              .x_zero = 5},
        Group{.name = "residual_odd",
              .x = {1, 13, 5, 5},
              .w = {17, 13, 1, 1},
              .added = true,
              .x_zero = 120,
              .y_zero = 100},
        Group{.name = "strided",
              .x = {1, 32, 15, 15},
              .w = {16, 32, 3, 3},
              .stride = 2,
              .pad = 1,
              .relu = true},
        Group{.name = "per_tensor",
              .x = {1, 12, 8, 8},
              .w = {8, 12, 3, 3},
              .per_channel = false,
              .x_zero = 64},
        Group{.name = "depthwise",
              .x = {1, 19, 9, 9},
              .w = {19, 1, 3, 3},
              .groups = 19,
              .pad = 1,
              .x_zero = 12,
              .y_zero = 130,
              .sy = 0.05F},
        Group{.name = "grouped", .x = {1, 8, 9, 9}, .w = {12, 4, 3, 3}, .groups = 2, .x_zero = 12},
        Group{.name = "signed",
              .x = {1, 16, 6, 6},
              .w = {16, 16, 3, 3},
              .pad = 1,
              .x_zero = -7,
              .y_zero = 9,
              .x_type = DType::kI8,
              .y_type = DType::kI8},
        Group{.name = "large",
              .x = {1, 64, 14, 14},
              .w = {64, 64, 3, 3},
              .pad = 1,
              .added = true,
              .relu = true,
              .x_zero = 128,
              .sy = 0.5F},
        Group{.name = "rows",
              .op = "MatMul",
              .x = {7, 96},
              .w = {96, 33},
              .bias = false,
              .x_zero = 128,
              .y_zero = 128,
              .sy = 0.1F},
        Group{.name = "one_row",
              .op = "Gemm",
              .x = {1, 511},
              .w = {511, 100},
              .x_zero = 3,
              .sy = 0.5F},
        Group{.name = "many_rows",
              .op = "Gemm",
              .x = {64, 256},
              .w = {256, 128},
              .added = true,
              .x_zero = 99,
              .y_zero = 128,
              .sy = 0.3F}),
    [](const auto& g) { return g.param.name; });

}  // namespace
}  // namespace tessera::app
