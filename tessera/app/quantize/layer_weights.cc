#include "tessera/app/quantize/layer_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::app {
namespace {

// Sums of products and a bias of at most this fit 32 bits for any layer that is not huge.
constexpr double kLargestBias = 1 << 30;
constexpr double kMost = 127;

// Scales from the largest magnitudes, then the integers.
void round_weights(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                   double x_scale, LayerWeights* out) {
  std::vector<double> peak(static_cast<std::size_t>(out->scales.size()));
  for_each_weight(layer, [&](std::int64_t i, std::int64_t o, std::int64_t) {
    double& p = peak[static_cast<std::size_t>(o)];
    p = std::max(p, std::abs(double{weight.as<float>()[i]}));
  });
  for (std::size_t i = 0; i < peak.size(); ++i) {
    double scale = peak[i] / kMost;
    if (bias && x_scale > 0) {
      const double b = std::abs(bias->get_float(static_cast<std::int64_t>(i)));
      scale = std::max(scale, b / (x_scale * kLargestBias));
    }
    // Channels of zeros, and of numbers that no scale can divide.
    if (!(scale > double{std::numeric_limits<float>::min()})) scale = 1;
    out->scales.as<float>()[i] = static_cast<float>(scale);
  }
  for_each_weight(layer, [&](std::int64_t i, std::int64_t o, std::int64_t) {
    const double scale = out->scales.get_float(o);
    const double q = std::nearbyint(weight.as<float>()[i] / scale);
    out->integers.as<std::int8_t>()[i] = static_cast<std::int8_t>(std::clamp(q, -kMost, kMost));
  });
}

// Takes the mean of what rounding adds off the bias, which is made where there was none.
void correct_bias(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                  const Observed* x, LayerWeights* out) {
  out->bias = bias ? bias->clone() : HostTensor(DType::kF32, {0});
  if (!x || !bias || static_cast<std::int64_t>(x->mean.size()) != layer.inputs()) return;
  std::vector<double> added(static_cast<std::size_t>(layer.outputs()));
  for_each_weight(layer, [&](std::int64_t i, std::int64_t o, std::int64_t c) {
    const double error = weight_value(*out, i, o) - weight.as<float>()[i];
    added[static_cast<std::size_t>(o)] += error * x->mean[static_cast<std::size_t>(c)];
  });
  for (std::size_t o = 0; o < added.size(); ++o)
    out->bias.as<float>()[o] = static_cast<float>(out->bias.as<float>()[o] - added[o]);
}

}  // namespace

double weight_value(const LayerWeights& weights, std::int64_t i, std::int64_t output) {
  return weights.integers.as<std::int8_t>()[i] * weights.scales.get_float(output);
}

LayerWeights byte_weights(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                          const Observed* x, double x_scale) {
  LayerWeights out{
      HostTensor(DType::kI8, layer.shape), HostTensor(DType::kF32, {layer.outputs()}), {}};
  round_weights(layer, weight, bias, x_scale, &out);
  correct_bias(layer, weight, bias, x, &out);
  return out;
}

}  // namespace tessera::app
