// Operators of the newest versions of ONNX, as networks use them.
#include <algorithm>
#include <cmath>

#include "tests/wild/wild.h"

namespace tessera::wild {
namespace {

// Colours along a ray: each point lets through what those before it left (CumProd, exclusive).
WildModel volume_rendering() {
  Rng rng(601);
  Writer g(26);
  const Array density = random({3, 8}, rng), colour = random({3, 8}, rng);
  const std::string alpha = g.add("Sigmoid", {g.input("density", density)});
  const std::string one = g.weight(make({}, [](auto) { return 1; }));
  const std::string left =
      g.add("CumProd",
            {g.add("Sub", {one, alpha}), g.weight(make({}, [](auto) { return 1; }), DType::kI64)},
            {attr("exclusive", std::int64_t{1})});
  const std::string seen = g.add("Mul", {g.add("Mul", {alpha, left}), g.input("colour", colour)});
  const std::string y =
      g.add("ReduceSum", {seen, g.integers({1})}, {attr("keepdims", std::int64_t{0})});
  const Array want = make({3}, [&](std::int64_t ray) {
    double light = 1, sum = 0;
    for (std::int64_t i = ray * 8; i < ray * 8 + 8; ++i) {
      sum += light * sigmoid(density[i]) * colour[i];
      light *= 1 - sigmoid(density[i]);
    }
    return sum;
  });
  return g.finish("volume_rendering", {y}, {to_tensor(want)});
}

// The exponent of a float, read from its bits, and the number scaled to [1, 2) by writing them.
WildModel exponents_by_bits() {
  Rng rng(602);
  Writer g(26);
  const Array x =
      map(random({12}, rng), [](double v) { return static_cast<float>(std::abs(v) * 100 + 0.01); });
  const auto number = [&](double v) {
    return g.weight(make({}, [v](auto) { return v; }), DType::kI32);
  };
  const std::string bits = g.add("BitCast", {g.input("x", x)}, {attr("to", std::int64_t{6})});
  const std::string exponent = g.add("Sub", {g.add("Div", {bits, number(1 << 23)}), number(127)});
  const std::string fraction = g.add("Mod", {bits, number(1 << 23)});
  const std::string y = g.add("BitCast", {g.add("Add", {fraction, number(127 << 23)})},
                              {attr("to", std::int64_t{1})});
  const Array powers = map(x, [](double v) { return std::floor(std::log2(v)); });
  const Array scaled = make({12}, [&](std::int64_t i) { return x[i] / std::exp2(powers[i]); });
  return g.finish("exponents_by_bits", {exponent, y},
                  {to_tensor(powers, DType::kI32), to_tensor(scaled)});
}

// A deformable layer: an ordinary convolution says where the other one looks.
WildModel deformable_block() {
  Rng rng(603);
  Writer g(19);
  const Array x = random({1, 2, 5, 5}, rng), places = random({8, 2, 3, 3}, rng);
  const Array w = random({3, 2, 2, 2}, rng);
  const std::string image = g.input("x", x);
  const std::string offset =
      g.add("Conv", {image, g.weight(places)}, {attr("pads", Integers{1, 1, 0, 0})});
  const std::string y =
      g.add("DeformConv", {image, g.weight(w), offset}, {attr("pads", Integers(4, 0))});
  const Array all = conv2d(x, places, 1, 1);  // the last row and column are not used
  const Array want = make({1, 3, 4, 4}, [&](std::int64_t i) {
    const std::int64_t filter = i / 16, row = i / 4 % 4, column = i % 4;
    double sum = 0;
    for (std::int64_t c = 0; c < 2; ++c) {
      for (std::int64_t tap = 0; tap < 4; ++tap) {
        const auto shift = [&](std::int64_t axis) {
          return all[(2 * tap + axis) * 25 + row * 5 + column];
        };
        const double y0 = static_cast<double>(row + tap / 2) + shift(0);
        const double x0 = static_cast<double>(column + tap % 2) + shift(1);
        double v = 0;
        for (std::int64_t p = 0; p < 25; ++p) {
          const double wy = 1 - std::abs(y0 - static_cast<double>(p / 5));
          const double wx = 1 - std::abs(x0 - static_cast<double>(p % 5));
          if (wy > 0 && wx > 0) v += wy * wx * x[c * 25 + p];
        }
        sum += v * w[(filter * 2 + c) * 4 + tap];
      }
    }
    return sum;
  });
  return g.finish("deformable_block", {y}, {to_tensor(want)});
}

// A layer of a recurrent language model: a causal convolution with state, then a memory that is
// updated by the delta rule.
WildModel delta_rule_layer() {
  constexpr std::int64_t kTokens = 3, kSize = 4;
  Rng rng(604);
  Writer g(27);
  const Array x = random({1, kSize, kTokens}, rng), w = random({kSize, 1, 3}, rng);
  const Array past = random({1, kSize, 2}, rng), memory = random({1, 1, kSize, kSize}, rng);
  const Array rate = random({1, kTokens, 1}, rng), query = random({1, kTokens, kSize}, rng);
  const Array value = random({1, kTokens, kSize}, rng);
  g.add("CausalConvWithState", {g.input("x", x), g.weight(w), "", g.input("past_conv", past)},
        {attr("activation", std::string("silu"))}, 2);
  const std::string mixed = g.output(0), next_conv = g.output(1);
  const std::string keys = g.add("Transpose", {mixed}, {attr("perm", Integers{0, 2, 1})});
  g.add("LinearAttention",
        {g.input("q", query), keys, g.input("v", value), g.input("past_memory", memory), "",
         g.input("beta", rate)},
        {attr("q_num_heads", std::int64_t{1}), attr("kv_num_heads", std::int64_t{1}),
         attr("update_rule", std::string("delta")), attr("scale", 1.0F)},
        2);
  const std::string y = g.output(0), next_memory = g.output(1);

  const auto sample = [&](std::int64_t c, std::int64_t t) {
    return t < 2 ? past[c * 2 + t] : x[c * kTokens + t - 2];
  };
  Array state = memory, output{{1, kTokens, kSize}, {}};
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const Array key = make({kSize}, [&](std::int64_t c) {
      double sum = 0;
      for (std::int64_t k = 0; k < 3; ++k) sum += w[c * 3 + k] * sample(c, t + k);
      return sum * sigmoid(sum);
    });
    const Array written = make({kSize}, [&](std::int64_t m) {
      double recalled = 0;
      for (std::int64_t d = 0; d < kSize; ++d) recalled += state[d * kSize + m] * key[d];
      return rate[t] * (value[t * kSize + m] - recalled);
    });
    for (std::int64_t i = 0; i < kSize * kSize; ++i)
      state[i] += key[i / kSize] * written[i % kSize];
    for (std::int64_t m = 0; m < kSize; ++m) {
      double sum = 0;
      for (std::int64_t d = 0; d < kSize; ++d) sum += query[t * kSize + d] * state[d * kSize + m];
      output.data.push_back(sum);
    }
  }
  const Array carried =
      make({1, kSize, 2}, [&](std::int64_t i) { return sample(i / 2, kTokens + i % 2); });
  return g.finish("delta_rule_layer", {y, next_memory, next_conv},
                  {to_tensor(output), to_tensor(state), to_tensor(carried)});
}

// Attention whose body adds a slope along the distance and hides the future.
WildModel flex_attention_with_slopes() {
  constexpr std::int64_t kTokens = 5, kSize = 4;
  Rng rng(605);
  Writer g(24);
  g.model().opsets["ai.onnx.preview"] = 1;
  const Array q = random({1, 1, kTokens, kSize}, rng), k = random(q.shape, rng);
  const Array v = random(q.shape, rng);
  const auto bias = [](std::int64_t i) {
    const std::int64_t distance = i % kTokens - i / kTokens;
    return distance > 0 ? -1e9 : 0.25 * static_cast<double>(distance);
  };
  const onnx::Graph body = onnx::testing::make_graph(
      {onnx::testing::value_info("s", DType::kF32, {1, 1, kTokens, kTokens})},
      {onnx::testing::make_node("Add", {"s", "slopes"}, {"r"})}, {"r"},
      {{"slopes", to_tensor(make({kTokens, kTokens}, bias))}});
  const std::string y = g.add("FlexAttention", {g.input("q", q), g.input("k", k), g.input("v", v)},
                              {onnx::testing::body_attribute("score_mod", body)});
  g.graph().nodes.back().domain = "ai.onnx.preview";
  const auto rows = [](const Array& a) { return reshape(a, {kTokens, kSize}); };
  const Array scores = map(matmul(rows(q), transpose(rows(k))), [](double s) { return s / 2; });
  const Array weights = softmax(add(scores, make({kTokens, kTokens}, bias)));
  return g.finish("flex_attention_with_slopes", {y},
                  {to_tensor(reshape(matmul(weights, rows(v)), q.shape))});
}

// Each token goes to its two best experts, weighed by their renormalised scores.
WildModel mixture_of_experts() {
  constexpr std::int64_t kTokens = 3, kExperts = 4, kSize = 3;
  Rng rng(606);
  Writer g(18);
  const Array x = random({kTokens, kSize}, rng), router = random({kSize, kExperts}, rng);
  const Array experts = random({kExperts, kSize, kSize}, rng);
  const std::string tokens = g.input("x", x);
  const std::string gates = g.add("Softmax", {g.add("MatMul", {tokens, g.weight(router)})},
                                  {attr("axis", std::int64_t{-1})});
  g.add("TopK", {gates, g.integers({2})}, {attr("axis", std::int64_t{-1})}, 2);
  const std::string best = g.output(0), chosen = g.output(1);
  const std::string total = g.add("ReduceSum", {best, g.integers({-1})});
  const std::string shares = g.add("Unsqueeze", {g.add("Div", {best, total}), g.integers({2})});
  const std::string weights = g.add("Gather", {g.weight(experts), chosen});  // [tokens, 2, k, n]
  const std::string rows = g.add("Unsqueeze", {tokens, g.integers({1, 2})});
  const std::string each = g.add("Squeeze", {g.add("MatMul", {rows, weights}), g.integers({2})});
  const std::string y = g.add("ReduceSum", {g.add("Mul", {each, shares}), g.integers({1})},
                              {attr("keepdims", std::int64_t{0})});
  const Array scores = softmax(matmul(x, router));
  const Array want = make({kTokens, kSize}, [&](std::int64_t i) {
    const std::int64_t t = i / kSize;
    std::vector<std::int64_t> order = {0, 1, 2, 3};
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return scores[t * kExperts + a] > scores[t * kExperts + b];
    });
    const double both = scores[t * kExperts + order[0]] + scores[t * kExperts + order[1]];
    double sum = 0;
    for (const std::int64_t e : {order[0], order[1]}) {
      for (std::int64_t d = 0; d < kSize; ++d) {
        sum += scores[t * kExperts + e] / both * x[t * kSize + d] *
               experts[(e * kSize + d) * kSize + i % kSize];
      }
    }
    return sum;
  });
  return g.finish("mixture_of_experts", {y}, {to_tensor(want)});
}

}  // namespace

std::vector<WildModel> newer_models() {
  return {volume_rendering(), exponents_by_bits(),          deformable_block(),
          delta_rule_layer(), flex_attention_with_slopes(), mixture_of_experts()};
}

}  // namespace tessera::wild
