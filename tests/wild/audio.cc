// Models that listen: branches on the sample rate, spectra, filters.
#include <cmath>

#include "tests/wild/wild.h"

namespace tessera::wild {
namespace {

const double kPi = std::acos(-1.0);

// x [samples], one filter per row of w [m, k]; without padding. [frames, m]
Array frames_of(const Array& x, const Array& w, std::int64_t stride) {
  const std::int64_t m = w.dim(0), k = w.dim(1);
  const std::int64_t n = (static_cast<std::int64_t>(x.data.size()) - k) / stride + 1;
  return make({n, m}, [&](std::int64_t i) {
    double sum = 0;
    for (std::int64_t t = 0; t < k; ++t) sum += x[i / m * stride + t] * w[i % m * k + t];
    return sum;
  });
}

// A voice activity detector: the front end depends on the sample rate, an input; an LSTM carries
// its state from call to call.
WildModel voice_activity(std::int64_t rate) {
  constexpr std::int64_t kChannels = 3, kHidden = 2;
  Rng rng(401);
  Writer g(16);
  const Array x = random({1, 1, 32}, rng), slow = random({kChannels, 4}, rng);
  const Array fast = random({kChannels, 8}, rng), w = random({4 * kHidden, kChannels}, rng);
  const Array r = random({4 * kHidden, kHidden}, rng), h0 = random({1, 1, kHidden}, rng);
  const Array c0 = random({1, 1, kHidden}, rng);
  g.input("audio", x);
  const std::string sample_rate =
      g.input("sr", make({}, [&](auto) { return static_cast<double>(rate); }), DType::kI64);
  const std::string state = g.input("h", h0), memory = g.input("c", c0);
  const std::string is_fast =
      g.add("Equal", {sample_rate, g.weight(make({}, [](auto) { return 16000; }), DType::kI64)});
  const auto front = [&](const Array& filters, std::int64_t stride, const char* out) {
    onnx::Graph body = onnx::testing::make_graph(
        {},
        {onnx::testing::make_node("Conv", {"audio", std::string(out) + "_w"}, {out},
                                  {attr("strides", Integers{stride})})},
        {out});
    body.initializers.push_back(
        {std::string(out) + "_w", to_tensor(reshape(filters, {kChannels, 1, filters.dim(1)}))});
    return body;
  };
  const std::string features =
      g.add("If", {is_fast},
            {onnx::testing::body_attribute("then_branch", front(fast, 8, "fast")),
             onnx::testing::body_attribute("else_branch", front(slow, 4, "slow"))});
  const std::string steps = g.add("Transpose", {features}, {attr("perm", Integers{2, 0, 1})});
  g.add("LSTM",
        {steps, g.weight(reshape(w, {1, 4 * kHidden, kChannels})),
         g.weight(reshape(r, {1, 4 * kHidden, kHidden})), "", "", state, memory},
        {attr("hidden_size", kHidden)}, 3);
  const std::string hn = g.output(1), cn = g.output(2);
  const std::string speech = g.add(
      "Sigmoid", {g.add("ReduceSum", {hn, g.integers({2})}, {attr("keepdims", std::int64_t{0})})});

  const Array rows = frames_of(x, rate == 16000 ? fast : slow, rate == 16000 ? 8 : 4);
  const Array from_x = matmul(rows, transpose(w));
  Array h = reshape(h0, {1, kHidden}), c = reshape(c0, {1, kHidden});
  for (std::int64_t t = 0; t < rows.dim(0); ++t) {
    const Array from_h = matmul(h, transpose(r));
    const auto gate = [&](std::int64_t k, std::int64_t i) {
      return from_x[(t * 4 + k) * kHidden + i] + from_h[k * kHidden + i];
    };
    for (std::int64_t i = 0; i < kHidden; ++i) {
      c[i] = sigmoid(gate(2, i)) * c[i] + sigmoid(gate(0, i)) * std::tanh(gate(3, i));
      h[i] = sigmoid(gate(1, i)) * std::tanh(c[i]);
    }
  }
  const Array want = make({1, 1}, [&](auto) { return sigmoid(h[0] + h[1]); });
  return g.finish("voice_activity_at_" + std::to_string(rate), {speech, hn, cn},
                  {to_tensor(want), to_tensor(reshape(h, {1, 1, kHidden})),
                   to_tensor(reshape(c, {1, 1, kHidden}))},
                  "the condition follows from data", "sr");
}

// Power in bands of a windowed spectrum, as a logarithm.
WildModel log_spectrogram() {
  constexpr std::int64_t kFrame = 8, kStep = 4, kBins = kFrame / 2 + 1, kBands = 3;
  Rng rng(402);
  Writer g(17);
  const Array x = random({1, 20, 1}, rng);
  const Array bands = map(random({kBins, kBands}, rng), [](double v) { return std::abs(v); });
  const Array window = make({kFrame}, [](std::int64_t i) {
    return 0.5 - 0.5 * std::cos(2 * kPi * static_cast<double>(i) / kFrame);
  });
  const std::string spectrum = g.add(
      "STFT", {g.input("audio", x), g.weight(make({}, [](auto) { return kStep; }), DType::kI64),
               g.weight(window)});
  const std::string power = g.add("ReduceSumSquare", {spectrum},
                                  {attr("axes", Integers{3}), attr("keepdims", std::int64_t{0})});
  const std::string mel = g.add("MatMul", {power, g.weight(bands)});
  const std::string y =
      g.add("Log", {g.add("Add", {mel, g.weight(make({}, [](auto) { return 0.01; }))})});
  const Array energy = make({4, kBins}, [&](std::int64_t i) {
    double re = 0, im = 0;
    for (std::int64_t t = 0; t < kFrame; ++t) {
      const double v = x[i / kBins * kStep + t] * window[t];
      const double angle = 2 * kPi * static_cast<double>(t * (i % kBins)) / kFrame;
      re += v * std::cos(angle);
      im -= v * std::sin(angle);
    }
    return re * re + im * im;
  });
  const Array want = map(matmul(energy, bands), [](double v) { return std::log(v + 0.01); });
  return g.finish("log_spectrogram", {y}, {to_tensor(reshape(want, {1, 4, kBands}))});
}

// A filter applied in the spectrum: forward, times the gains, back to real samples. The same as a
// circular convolution with the filter's response.
WildModel spectral_filter() {
  constexpr std::int64_t kLength = 10, kBins = kLength / 2 + 1;
  Rng rng(403);
  Writer g(20);
  const Array x = random({1, kLength, 1}, rng);
  const Array gains =
      make({kBins}, [](std::int64_t k) { return 1.0 / static_cast<double>(1 + k); });
  const std::string spectrum =
      g.add("DFT", {g.input("audio", x)}, {attr("onesided", std::int64_t{1})});
  const std::string shaped = g.add("Mul", {spectrum, g.weight(reshape(gains, {1, kBins, 1}))});
  const std::string y =
      g.add("DFT", {shaped, g.weight(make({}, [](auto) { return kLength; }), DType::kI64)},
            {attr("inverse", std::int64_t{1}), attr("onesided", std::int64_t{1})});
  const Array want = make({1, kLength, 1}, [&](std::int64_t t) {
    double sum = 0;
    for (std::int64_t s = 0; s < kLength; ++s) {
      double response = 0;
      for (std::int64_t k = 0; k < kLength; ++k) {
        const double gain = gains[k < kBins ? k : kLength - k];
        response += gain * std::cos(2 * kPi * static_cast<double>(k * (t - s)) / kLength);
      }
      sum += x[s] * response / kLength;
    }
    return sum;
  });
  return g.finish("spectral_filter", {y}, {to_tensor(want)});
}

}  // namespace

std::vector<WildModel> audio_models() {
  return {voice_activity(16000), voice_activity(8000), log_spectrogram(), spectral_filter()};
}

}  // namespace tessera::wild
