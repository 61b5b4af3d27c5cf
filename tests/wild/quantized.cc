// Weights of 4 and 8 bits, and a recurrent layer that quantizes on the way.
#include <algorithm>
#include <cmath>

#include "tests/wild/wild.h"

namespace tessera::wild {
namespace {

// Two layers whose first weights are int4 with a scale for each block of 4 rows.
WildModel int4_blocks() {
  Rng rng(201);
  Writer g(21);
  const Array x = random({2, 8}, rng), last = random({6, 3}, rng);
  const Array codes =
      make({8, 6}, [](std::int64_t i) { return static_cast<double>(i * 5 % 16 - 8); });
  const Array scales = map(random({2, 6}, rng), [](double v) { return 0.1 + std::abs(v) * 0.1; });
  const std::string scale = g.weight(scales);
  const std::string weights =
      g.add("DequantizeLinear", {g.narrow({"int4", to_tensor(codes, DType::kI8)}), scale},
            {attr("axis", std::int64_t{0}), attr("block_size", std::int64_t{4})});
  const std::string hidden = g.add("Relu", {g.add("MatMul", {g.input("x", x), weights})});
  const std::string y = g.add("MatMul", {hidden, g.weight(last)});
  const HostTensor stored = to_tensor(scales);  // rounded to f32
  const Array wide =
      make({8, 6}, [&](std::int64_t i) { return codes[i] * stored.get_float(i / 24 * 6 + i % 6); });
  return g.finish("int4_blocks", {y}, {to_tensor(matmul(map(matmul(x, wide), relu), last))});
}

// uint4 with a zero point per output, stored transposed.
WildModel uint4_transposed() {
  Rng rng(202);
  Writer g(21);
  const Array x = random({1, 5}, rng);
  const Array codes = make({4, 5}, [](std::int64_t i) { return static_cast<double>(i * 7 % 16); });
  const Array zeros = make({4}, [](std::int64_t i) { return static_cast<double>(6 + i); });
  const std::string weights = g.narrow({"uint4", to_tensor(codes, DType::kU8)});
  const std::string turned = g.add("Transpose", {weights});
  const std::string wide =
      g.add("DequantizeLinear",
            {turned,
             g.weight(make({4}, [](std::int64_t i) { return 0.25 * static_cast<double>(1 + i); })),
             g.narrow({"uint4", to_tensor(zeros, DType::kU8)})},
            {attr("axis", std::int64_t{1})});
  const std::string y = g.add("MatMul", {g.input("x", x), wide});
  const Array plain = make({5, 4}, [&](std::int64_t i) {
    const std::int64_t column = i % 4;
    return (codes[column * 5 + i / 4] - zeros[column]) * 0.25 * static_cast<double>(1 + column);
  });
  return g.finish("uint4_transposed", {y}, {to_tensor(matmul(x, plain))});
}

// Weights of 8-bit floats, cast in one layer and dequantized in the next.
WildModel float8_layers() {
  Rng rng(203);
  Writer g(21);
  const Array x = random({3, 4}, rng);
  const auto eighths = [](std::int64_t n) {
    return make({n, n}, [](std::int64_t i) { return static_cast<double>(i * 3 % 16 - 8) / 8; });
  };
  const Array first = eighths(4), second = eighths(4);
  const std::string cast =
      g.add("Cast", {g.weight(first, DType::kF8E4M3)}, {attr("to", std::int64_t{1})});
  const std::string scaled = g.add(
      "DequantizeLinear",
      {g.weight(second, DType::kF8E5M2), g.weight(make({}, [](std::int64_t) { return 0.5; }))});
  const std::string h = g.add("Tanh", {g.add("MatMul", {g.input("x", x), cast})});
  const std::string y = g.add("MatMul", {h, scaled});
  const Array hidden = map(matmul(x, first), [](double v) { return std::tanh(v); });
  const Array want = matmul(hidden, map(second, [](double v) { return v / 2; }));
  return g.finish("float8_layers", {y}, {to_tensor(want)});
}

// Rounds to 256 steps between the least and the largest element.
Array quantized(const Array& a) {
  const double low = std::min(0.0, *std::min_element(a.data.begin(), a.data.end()));
  const double high = std::max(0.0, *std::max_element(a.data.begin(), a.data.end()));
  if (low == high) return a;
  const double step = static_cast<float>((high - low) / 255), zero = std::nearbyint(-low / step);
  return map(a, [&](double v) {
    return (std::clamp(std::nearbyint(v / step) + zero, 0.0, 255.0) - zero) * step;
  });
}

// A tagger: DynamicQuantizeLSTM over five tokens, then a layer of floats.
WildModel quantized_lstm() {
  constexpr std::int64_t kSteps = 5, kInputs = 4, kHidden = 3;
  Rng rng(204);
  Writer g(17);
  g.model().opsets["com.microsoft"] = 1;
  const Array x = random({kSteps, 1, kInputs}, rng), head = random({kHidden, 2}, rng);
  const auto bytes = [](std::int64_t rows) {
    return make({1, rows, 4 * kHidden},
                [](std::int64_t i) { return static_cast<double>(i * 29 % 255 - 127); });
  };
  const Array w = bytes(kInputs), r = bytes(kHidden);
  const std::string scale = g.weight(make({1}, [](std::int64_t) { return 0.0078125; }));
  const std::string zero = g.weight(make({1}, [](std::int64_t) { return 0; }), DType::kI8);
  const std::string states =
      g.add("DynamicQuantizeLSTM",
            {g.input("x", x), g.weight(w, DType::kI8), g.weight(r, DType::kI8), "", "", "", "", "",
             scale, zero, scale, zero},
            {attr("hidden_size", kHidden)});
  g.graph().nodes.back().domain = "com.microsoft";
  const std::string rows = g.add("Reshape", {states, g.integers({kSteps, kHidden})});
  const std::string y = g.add("MatMul", {rows, g.weight(head)});

  const auto floats = [](const Array& b) {
    return reshape(map(b, [](double v) { return v * 0.0078125; }), {b.dim(1), b.dim(2)});
  };
  const Array from_x = matmul(quantized(reshape(x, {kSteps, kInputs})), floats(w));
  Array h = make({1, kHidden}, [](std::int64_t) { return 0; }), c = h;
  Array all{{kSteps, kHidden}, {}};
  for (std::int64_t t = 0; t < kSteps; ++t) {
    const Array from_h = matmul(quantized(h), floats(r));
    const auto gate = [&](std::int64_t k, std::int64_t i) {
      return from_x[(t * 4 + k) * kHidden + i] + from_h[k * kHidden + i];
    };
    for (std::int64_t i = 0; i < kHidden; ++i) {
      c[i] = sigmoid(gate(2, i)) * c[i] + sigmoid(gate(0, i)) * std::tanh(gate(3, i));
      h[i] = sigmoid(gate(1, i)) * std::tanh(c[i]);
      all.data.push_back(h[i]);
    }
  }
  WildModel m = g.finish("quantized_lstm", {y}, {to_tensor(matmul(all, head))});
  m.tolerance = 2e-3;  // a number between two steps may go to either
  return m;
}

}  // namespace

std::vector<WildModel> quantized_models() {
  return {int4_blocks(), uint4_transposed(), float8_layers(), quantized_lstm()};
}

}  // namespace tessera::wild
