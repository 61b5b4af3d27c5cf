// LinearAttention, CausalConvWithState and FlexAttention against plain loops.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"

namespace tessera::onnx::testing {
namespace {

using tessera::testing::mismatch;
using ::testing::HasSubstr;

std::vector<HostTensor> run(const OneNode& node, const std::vector<Operand>& operands) {
  const auto y = run_node(node, operands);
  EXPECT_TRUE(y.ok()) << node.op << ": " << y.error().message;
  return y.ok() ? *y : std::vector<HostTensor>(node.outputs);
}

// Sizes of a layer; `key_decay`: a decay for each element of the keys.
struct Layer {
  std::int64_t batch = 2, tokens = 4, q_heads = 4, kv_heads = 2, key = 3, value = 5;
  std::string rule = "gated_delta";
  bool key_decay = false, one_beta = false, past = true;
  double scale = 0;

  bool gated() const { return rule.starts_with("gated"); }
  bool delta() const { return rule.ends_with("delta"); }
};

struct Data {
  HostTensor q, k, v, past, decay, beta;
};

Data make_data(const Layer& l) {
  Rng rng(17);
  const auto make = [&](const Shape& shape) { return random_tensor(DType::kF32, shape, rng); };
  return {make({l.batch, l.tokens, l.q_heads * l.key}),
          make({l.batch, l.tokens, l.kv_heads * l.key}),
          make({l.batch, l.tokens, l.kv_heads * l.value}),
          make({l.batch, l.kv_heads, l.key, l.value}),
          make({l.batch, l.tokens, l.kv_heads * (l.key_decay ? l.key : 1)}),
          make({l.batch, l.tokens, l.one_beta ? 1 : l.kv_heads})};
}

// Token after token, head after head.
std::pair<HostTensor, HostTensor> reference(const Layer& l, const Data& x) {
  HostTensor y(DType::kF32, {l.batch, l.tokens, l.q_heads * l.value});
  HostTensor state(DType::kF32, {l.batch, l.kv_heads, l.key, l.value});
  const double scale = l.scale == 0 ? 1 / std::sqrt(static_cast<double>(l.key)) : l.scale;
  const std::int64_t shared = l.q_heads / l.kv_heads;
  for (std::int64_t b = 0; b < l.batch; ++b)
    for (std::int64_t h = 0; h < l.kv_heads; ++h) {
      std::vector<std::vector<double>> s(static_cast<std::size_t>(l.key),
                                         std::vector<double>(static_cast<std::size_t>(l.value)));
      const std::int64_t first = (b * l.kv_heads + h) * l.key * l.value;
      const auto each = [&](auto&& visit) {
        for (std::int64_t d = 0; d < l.key; ++d)
          for (std::int64_t m = 0; m < l.value; ++m)
            visit(d, m, s[static_cast<std::size_t>(d)][static_cast<std::size_t>(m)]);
      };
      if (l.past) {
        each([&](auto d, auto m, double& e) { e = x.past.get_float(first + d * l.value + m); });
      }
      for (std::int64_t t = 0; t < l.tokens; ++t) {
        const std::int64_t row = b * l.tokens + t;
        const auto key = [&](std::int64_t d) {
          return x.k.get_float((row * l.kv_heads + h) * l.key + d);
        };
        std::vector<double> value, recalled(static_cast<std::size_t>(l.value));
        for (std::int64_t m = 0; m < l.value; ++m)
          value.push_back(x.v.get_float((row * l.kv_heads + h) * l.value + m));
        if (l.gated()) {
          each([&](auto d, auto, double& e) {
            const std::int64_t head = row * l.kv_heads + h;
            e *= std::exp(x.decay.get_float(l.key_decay ? head * l.key + d : head));
          });
        }
        if (l.delta()) {
          each([&](auto d, auto m, double& e) {
            recalled[static_cast<std::size_t>(m)] += e * key(d);
          });
          const double rate = x.beta.get_float(l.one_beta ? row : row * l.kv_heads + h);
          for (std::size_t m = 0; m < value.size(); ++m) value[m] = rate * (value[m] - recalled[m]);
        }
        each([&](auto d, auto m, double& e) { e += key(d) * value[static_cast<std::size_t>(m)]; });
        for (std::int64_t g = 0; g < shared; ++g) {
          const std::int64_t head = row * l.q_heads + h * shared + g;
          each([&](auto d, auto m, double& e) {
            const std::int64_t at = head * l.value + m;
            y.set_float(at, y.get_float(at) + scale * x.q.get_float(head * l.key + d) * e);
          });
        }
      }
      each([&](auto d, auto m, double& e) { state.set_float(first + d * l.value + m, e); });
    }
  return {y, state};
}

OneNode node_of(const Layer& l) {
  return {"LinearAttention",
          27,
          {attr("q_num_heads", l.q_heads), attr("kv_num_heads", l.kv_heads),
           attr("update_rule", l.rule), attr("scale", static_cast<float>(l.scale))},
          2};
}

void expect_equal(const Layer& l) {
  SCOPED_TRACE(l.rule);
  const Data x = make_data(l);
  std::vector<Operand> operands = {x.q, x.k, x.v};
  operands.push_back(l.past ? Operand(x.past) : omitted());
  operands.push_back(l.gated() ? Operand(x.decay) : omitted());
  operands.push_back(l.delta() ? Operand(x.beta) : omitted());
  const auto y = run(node_of(l), operands);
  const auto [output, state] = reference(l, x);
  EXPECT_EQ(mismatch(y[0], output, 1e-4), "");
  EXPECT_EQ(mismatch(y[1], state, 1e-4), "");
}

TEST(LinearAttention, EveryRule) {
  for (const char* rule : {"linear", "gated", "delta", "gated_delta"}) {
    expect_equal({.rule = rule});
    expect_equal({.rule = rule, .key_decay = true, .one_beta = true, .past = false, .scale = 0.7});
    expect_equal({.tokens = 1, .q_heads = 2, .rule = rule});
  }
}

TEST(LinearAttention, Refusals) {
  const Layer l;
  const Data x = make_data(l);
  OneNode node = node_of(l);
  EXPECT_THAT(refusal(node, {x.q, x.k, x.v}), HasSubstr("decay do not fit"));
  node.attributes[2] = attr("update_rule", std::string("cubic"));
  EXPECT_THAT(refusal(node, {x.q, x.k, x.v}), HasSubstr("update_rule 'cubic'"));
  node.attributes[2] = attr("update_rule", std::string("linear"));
  EXPECT_THAT(refusal(node, {x.q, x.v, x.v}), HasSubstr("key is 2x4x10, not 2x4x6"));
  node.attributes[0] = attr("q_num_heads", std::int64_t{3});
  EXPECT_THAT(refusal(node, {x.q, x.k, x.v}), HasSubstr("3 heads of queries for 2"));
}

HostTensor causal_conv(const HostTensor& rows, const HostTensor& w, const HostTensor& bias,
                       bool silu) {
  const Shape& s = rows.shape();
  const std::int64_t k = w.shape()[2], length = s[2] - k + 1;
  HostTensor y(DType::kF32, {s[0], s[1], length});
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const std::int64_t t = i % length, row = i / length, channel = row % s[1];
    double sum = bias.get_float(channel);
    for (std::int64_t j = 0; j < k; ++j)
      sum += rows.get_float(row * s[2] + t + j) * w.get_float(channel * k + j);
    y.set_float(i, silu ? sum / (1 + std::exp(-sum)) : sum);
  }
  return y;
}

TEST(CausalConvWithState, StatePassesFromCallToCall) {
  Rng rng(3);
  const HostTensor x = random_tensor(DType::kF32, {2, 3, 6}, rng);
  const HostTensor w = random_tensor(DType::kF32, {3, 1, 4}, rng);
  const HostTensor bias = random_tensor(DType::kF32, {3}, rng);
  const HostTensor past = random_tensor(DType::kF32, {2, 3, 3}, rng);
  HostTensor rows(DType::kF32, {2, 3, 9}), zeros(DType::kF32, {2, 3, 9});
  HostTensor tail(DType::kF32, {2, 3, 3});
  for (std::int64_t i = 0; i < 54; ++i) {
    const std::int64_t row = i / 9, at = i % 9;
    const double v = at < 3 ? 0 : x.get_float(row * 6 + at - 3);
    zeros.set_float(i, v);
    rows.set_float(i, at < 3 ? past.get_float(row * 3 + at) : v);
    if (at >= 6) tail.set_float(row * 3 + at - 6, v);
  }
  const auto plain = run({"CausalConvWithState", 27, {}, 2}, {x, w, bias, past});
  EXPECT_EQ(mismatch(plain[0], causal_conv(rows, w, bias, false), 1e-5), "");
  EXPECT_EQ(mismatch(plain[1], tail, 0), "");
  const auto first = run({"CausalConvWithState", 27, {attr("activation", std::string("silu"))}, 2},
                         {x, known(w), bias});
  EXPECT_EQ(mismatch(first[0], causal_conv(zeros, w, bias, true), 1e-5), "");
  // One token: the state moves on by one.
  HostTensor one(DType::kF32, {2, 3, 1});
  const auto step = run({"CausalConvWithState", 27, {}, 2}, {one, w, omitted(), past});
  EXPECT_EQ(step[1].get_float(0), past.get_float(1));
  EXPECT_EQ(step[1].get_float(2), 0);
  EXPECT_THAT(refusal(OneNode{"CausalConvWithState", 27}, {x, w, bias, one}),
              HasSubstr("past_state is 2x3x1, not 2x3x3"));
  EXPECT_THAT(
      refusal(OneNode{"CausalConvWithState", 27, {attr("activation", std::string("x"))}}, {x, w}),
      HasSubstr("activation 'x'"));
}

// y = softmax(q k^T * scale + bias[j]) * 2 v, by a score_mod that adds and a prob_mod that doubles.
TEST(FlexAttention, BodiesChangeScoresAndWeights) {
  Rng rng(23);
  const HostTensor q = random_tensor(DType::kF32, {1, 2, 3, 4}, rng);
  const HostTensor k = random_tensor(DType::kF32, {1, 1, 5, 4}, rng);
  const HostTensor v = random_tensor(DType::kF32, {1, 1, 5, 2}, rng);
  const HostTensor bias = random_tensor(DType::kF32, {5}, rng);
  const Graph add = make_graph({value_info("s", DType::kF32, {1, 2, 3, 5})},
                               {make_node("Add", {"s", "bias"}, {"t"})}, {"t"}, {{"bias", bias}});
  const Graph twice = make_graph({value_info("p", DType::kF32, {1, 2, 3, 5})},
                                 {make_node("Add", {"p", "p"}, {"r"})}, {"r"});
  const OneNode node{"FlexAttention",
                     24,
                     {body_attribute("score_mod", add), body_attribute("prob_mod", twice)},
                     1,
                     "ai.onnx.preview"};
  HostTensor want(DType::kF32, {1, 2, 3, 2});
  for (std::int64_t row = 0; row < 6; ++row) {
    std::vector<double> weights;
    double total = 0;
    for (std::int64_t j = 0; j < 5; ++j) {
      double dot = 0;
      for (std::int64_t d = 0; d < 4; ++d) dot += q.get_float(row * 4 + d) * k.get_float(j * 4 + d);
      weights.push_back(std::exp(dot / 2 + bias.get_float(j)));
      total += weights.back();
    }
    for (std::int64_t e = 0; e < 2; ++e) {
      double sum = 0;
      for (std::int64_t j = 0; j < 5; ++j)
        sum += 2 * weights[static_cast<std::size_t>(j)] / total * v.get_float(j * 2 + e);
      want.set_float(row * 2 + e, sum);
    }
  }
  EXPECT_EQ(mismatch(run(node, {q, k, v})[0], want, 1e-5), "");

  const Graph shrink = make_graph({value_info("s", DType::kF32, {1, 2, 3, 5})},
                                  {make_node("ReduceSum", {"s"}, {"t"})}, {"t"});
  EXPECT_THAT(
      refusal(
          OneNode{"FlexAttention", 24, {body_attribute("score_mod", shrink)}, 1, "ai.onnx.preview"},
          {q, k, v}),
      HasSubstr("score_mod makes f32[1,1,1,1] of f32[1,2,3,5]"));
  EXPECT_THAT(refusal(OneNode{"FlexAttention", 24, {}, 1, "ai.onnx.preview"}, {q, k, k}),
              HasSubstr("no error"));
  EXPECT_THAT(refusal(OneNode{"FlexAttention", 24, {}, 1, "ai.onnx.preview"}, {q, v, v}),
              HasSubstr("do not fit"));
}

}  // namespace
}  // namespace tessera::onnx::testing
