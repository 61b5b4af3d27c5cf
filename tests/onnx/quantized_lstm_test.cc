// DynamicQuantizeLSTM against plain loops that quantize as it says.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::HasSubstr;
using Rows = std::vector<std::vector<double>>;

struct Weights {
  HostTensor bytes;        // [1, inputs, columns]
  HostTensor scale, zero;  // [1] or [1, columns]

  double at(std::int64_t i, std::int64_t j) const {
    const std::int64_t columns = bytes.shape()[2], s = scale.size() == 1 ? 0 : j;
    return static_cast<double>(bytes.get_int(i * columns + j) - zero.get_int(s)) *
           scale.get_float(s);
  }
};

// Each number becomes the nearest of 256 steps between the least and the largest, 0 among them.
Rows quantized(Rows rows) {
  double low = 0, high = 0;
  for (const auto& row : rows)
    for (const double v : row) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
  if (low == high) return rows;
  const double scale = static_cast<float>((high - low) / 255), zero = std::nearbyint(-low / scale);
  for (auto& row : rows)
    for (double& v : row)
      v = (std::clamp(std::nearbyint(v / scale) + zero, 0.0, 255.0) - zero) * scale;
  return rows;
}

Rows product(const Rows& rows, const Weights& w) {
  Rows out;
  for (const auto& row : quantized(rows)) {
    out.emplace_back(static_cast<std::size_t>(w.bytes.shape()[2]));
    for (std::size_t j = 0; j < out.back().size(); ++j)
      for (std::size_t i = 0; i < row.size(); ++i)
        out.back()[j] += row[i] * w.at(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j));
  }
  return out;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Case {
  std::int64_t steps = 3, batch = 2, inputs = 4, hidden = 3;
  HostTensor x, bias;
  Weights w, r;

  // [steps, 1, batch, hidden]
  HostTensor reference() const {
    Rows all;
    for (std::int64_t row = 0; row < steps * batch; ++row) {
      all.emplace_back();
      for (std::int64_t i = 0; i < inputs; ++i) all.back().push_back(x.get_float(row * inputs + i));
    }
    const Rows from_input = product(all, w);
    const auto count = static_cast<std::size_t>(hidden);
    Rows h(static_cast<std::size_t>(batch), std::vector<double>(count)), c = h;
    HostTensor y(DType::kF32, {steps, 1, batch, hidden});
    for (std::int64_t t = 0; t < steps; ++t) {
      const Rows from_state = product(h, r);
      for (std::size_t b = 0; b < h.size(); ++b)
        for (std::size_t k = 0; k < count; ++k) {
          const auto gate = [&](std::size_t g) {
            const std::size_t j = g * count + k;
            return from_input[static_cast<std::size_t>(t * batch) + b][j] + from_state[b][j] +
                   bias.get_float(static_cast<std::int64_t>(j)) +
                   bias.get_float(static_cast<std::int64_t>(j) + 4 * hidden);
          };
          c[b][k] = sigmoid(gate(2)) * c[b][k] + sigmoid(gate(0)) * std::tanh(gate(3));
          h[b][k] = sigmoid(gate(1)) * std::tanh(c[b][k]);
          y.set_float(
              (t * batch + static_cast<std::int64_t>(b)) * hidden + static_cast<std::int64_t>(k),
              h[b][k]);
        }
    }
    return y;
  }

  OneNode node() const {
    return {"DynamicQuantizeLSTM", 17, {attr("hidden_size", hidden)}, 3, "com.microsoft"};
  }
  std::vector<Operand> operands(bool constant) const {
    const auto given = [&](const HostTensor& t) { return constant ? known(t) : Operand(t); };
    return {
        x,         given(w.bytes), given(r.bytes), given(bias),   omitted(),      omitted(),
        omitted(), omitted(),      given(w.scale), given(w.zero), given(r.scale), given(r.zero)};
  }
};

Case make_case(DType bytes, bool per_column) {
  Case c;
  Rng rng(29);
  c.x = random_tensor(DType::kF32, {c.steps, c.batch, c.inputs}, rng);
  c.bias = random_tensor(DType::kF32, {1, 8 * c.hidden}, rng);
  const auto weights = [&](std::int64_t rows) {
    Weights w{HostTensor(bytes, {1, rows, 4 * c.hidden}), {}, {}};
    for (std::int64_t i = 0; i < w.bytes.size(); ++i)
      w.bytes.set_int(i, (i * 37 + rows) % 200 - (bytes == DType::kI8 ? 100 : 0));
    const Shape shape = per_column ? Shape{1, 4 * c.hidden} : Shape{1};
    w.scale = HostTensor(DType::kF32, shape);
    w.zero = HostTensor(bytes, shape);
    for (std::int64_t i = 0; i < w.scale.size(); ++i) {
      w.scale.set_float(i, 0.01 + 0.001 * static_cast<double>(i));
      w.zero.set_int(i, bytes == DType::kI8 ? 0 : 100 + i);
    }
    return w;
  };
  c.w = weights(c.inputs);
  c.r = weights(c.hidden);
  return c;
}

TEST(DynamicQuantizeLstm, EqualsLoops) {
  for (const DType bytes : {DType::kI8, DType::kU8}) {
    for (const bool per_column : {false, true}) {
      const Case c = make_case(bytes, per_column);
      for (const bool constant : {false, true}) {
        const auto y = run_node(c.node(), c.operands(constant));
        ASSERT_TRUE(y.ok()) << y.error().message;
        EXPECT_EQ(tessera::testing::mismatch((*y)[0], c.reference(), 1e-4), "")
            << to_text(bytes) << per_column << constant;
        EXPECT_EQ((*y)[1].shape(), (Shape{1, 2, 3}));
        EXPECT_EQ((*y)[2].shape(), (Shape{1, 2, 3}));
      }
    }
  }
}

TEST(DynamicQuantizeLstm, Refusals) {
  const Case c = make_case(DType::kI8, false);
  std::vector<Operand> operands = c.operands(true);
  operands[8] = omitted();
  EXPECT_THAT(refusal(c.node(), operands), HasSubstr("input 8 is missing"));
  operands[8] = known(HostTensor(DType::kF32, {2}));
  EXPECT_THAT(refusal(c.node(), operands), HasSubstr("input 8 is 2"));
  operands = c.operands(true);
  operands[1] = known(HostTensor(DType::kF32, {1, 4, 12}));
  EXPECT_THAT(refusal(c.node(), operands), HasSubstr("weights of f32"));
  operands[1] = known(HostTensor(DType::kI8, {1, 12, 4}));
  EXPECT_THAT(refusal(c.node(), operands), HasSubstr("do not fit"));
}

}  // namespace
}  // namespace tessera::onnx::testing
