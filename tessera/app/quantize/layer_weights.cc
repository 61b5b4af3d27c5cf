#include "tessera/app/quantize/layer_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/support/float_format.h"

namespace tessera::app {
namespace {

// Sums of products and a bias of at most this fit 32 bits for any layer that is not huge.
constexpr double kLargestBias = 1 << 30;
constexpr double kMost = 127;  // of a byte

// Scales from the largest magnitudes, `most` at the end, then the values.
void round_weights(const Layer& layer, const HostTensor& weight, double most,
                   const std::vector<double>& least_scales, LayerWeights* out) {
  std::vector<double> peak(static_cast<std::size_t>(out->scales.size()));
  for_each_weight(layer, [&](std::int64_t i, std::int64_t o, std::int64_t) {
    double& p = peak[static_cast<std::size_t>(o)];
    p = std::max(p, std::abs(double{weight.as<float>()[i]}));
  });
  for (std::size_t i = 0; i < peak.size(); ++i) {
    double scale = peak[i] / most;
    if (!least_scales.empty()) scale = std::max(scale, least_scales[i]);
    // Channels of zeros, and of numbers that no scale can divide.
    if (!(scale > double{std::numeric_limits<float>::min()})) scale = 1;
    out->scales.as<float>()[i] = static_cast<float>(scale);
  }
  for_each_weight(layer, [&](std::int64_t i, std::int64_t o, std::int64_t) {
    const double q = weight.as<float>()[i] / out->scales.get_float(o);
    if (is_float(out->values.dtype())) {
      out->values.set_float(i, std::clamp(q, -most, most));
    } else {
      out->values.as<std::int8_t>()[i] =
          static_cast<std::int8_t>(std::clamp(std::nearbyint(q), -most, most));
    }
  });
}

// With which the bias fits 32-bit integers.
std::vector<double> scales_for_bias(const HostTensor* bias, double x_scale) {
  std::vector<double> out;
  if (!bias || !(x_scale > 0)) return out;
  for (std::int64_t i = 0; i < bias->size(); ++i)
    out.push_back(std::abs(bias->get_float(i)) / (x_scale * kLargestBias));
  return out;
}

LayerWeights make(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                  const Observed* x, DType type, double most,
                  const std::vector<double>& least_scales) {
  LayerWeights out{
      HostTensor(type, layer.shape), HostTensor(DType::kF32, {layer.outputs()}), {}, {}};
  round_weights(layer, weight, most, least_scales, &out);
  std::vector<float> stand_for(static_cast<std::size_t>(weight.size()));
  for_each_weight(layer, [&](std::int64_t i, std::int64_t o, std::int64_t) {
    stand_for[static_cast<std::size_t>(i)] = static_cast<float>(weight_value(out, i, o));
  });
  correct_bias(layer, weight, bias, x, stand_for, &out);
  return out;
}

}  // namespace

// The bias is made where there was none.
void correct_bias(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                  const Observed* x, const std::vector<float>& stand_for, LayerWeights* out) {
  out->bias = bias ? bias->clone() : HostTensor(DType::kF32, {0});
  if (!x || !bias || static_cast<std::int64_t>(x->mean.size()) != layer.inputs()) return;
  std::vector<double> added(static_cast<std::size_t>(layer.outputs()));
  for_each_weight(layer, [&](std::int64_t i, std::int64_t o, std::int64_t c) {
    const double error = double{stand_for[static_cast<std::size_t>(i)]} - weight.as<float>()[i];
    added[static_cast<std::size_t>(o)] += error * x->mean[static_cast<std::size_t>(c)];
  });
  for (std::size_t o = 0; o < added.size(); ++o)
    out->bias.as<float>()[o] = static_cast<float>(out->bias.as<float>()[o] - added[o]);
}

double weight_value(const LayerWeights& weights, std::int64_t i, std::int64_t output) {
  const HostTensor& v = weights.values;
  const double value = is_float(v.dtype()) ? v.get_float(i) : static_cast<double>(v.get_int(i));
  return value * weights.scales.get_float(output);
}

LayerWeights byte_weights(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                          const Observed* x, double x_scale) {
  return make(layer, weight, bias, x, DType::kI8, kMost, scales_for_bias(bias, x_scale));
}

LayerWeights short_float_weights(const Layer& layer, const HostTensor& weight,
                                 const HostTensor* bias, const Observed* x) {
  return make(layer, weight, bias, x, DType::kF8E4M3, float_format(DType::kF8E4M3).largest(), {});
}

}  // namespace tessera::app
