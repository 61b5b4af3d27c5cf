#include "tessera/frontend/zoo/conv_block.h"

#include <algorithm>
#include <cmath>

#include "tessera/frontend/zoo/moments.h"

namespace tessera::zoo {
namespace {

HostTensor float_tensor(Shape shape, double value) {
  HostTensor tensor(DType::kF32, std::move(shape));
  for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set_float(i, value);
  return tensor;
}

HostTensor byte_scalar(DType dtype, std::int64_t value) {
  HostTensor tensor(dtype, {});
  tensor.set_int(0, value);
  return tensor;
}

struct QuantizedWeight {
  HostTensor bytes;
  HostTensor scales;  // one per row
};

// Symmetric, one scale per row of shape[0]; `fill` as for the float weight.
QuantizedWeight quantize_rows(ModelBuilder& b, const std::string& name, const Shape& shape,
                              const Fill& fill) {
  QuantizedWeight q{HostTensor(DType::kI8, shape), float_tensor({shape[0]}, 1)};
  if (!b.fill_weights() || q.bytes.size() == 0) return q;
  HostTensor values(DType::kF32, shape);
  fill_random(values, name, fill);
  const std::int64_t row = q.bytes.size() / shape[0];
  for (std::int64_t r = 0; r < shape[0]; ++r) {
    const float* from = values.as<float>() + r * row;
    float largest = 1e-8f;
    for (std::int64_t i = 0; i < row; ++i) largest = std::max(largest, std::abs(from[i]));
    q.scales.as<float>()[r] = largest / 127;
    for (std::int64_t i = 0; i < row; ++i) {
      q.bytes.as<std::int8_t>()[r * row + i] =
          static_cast<std::int8_t>(std::lround(from[i] / largest * 127));
    }
  }
  return q;
}

// The float value that an int8 weight [out, ...] and its scales stand for, and the same for a bias
// in steps of scale(x) * scale(weight).
std::vector<Value> dequantized_weights(ModelBuilder& b, const Value& x, const std::string& name,
                                       const Shape& shape, const Fill& fill) {
  // Counted as the floats from which they are made.
  if (!b.reserve(name, shape, DType::kF32)) return {};
  QuantizedWeight q = quantize_rows(b, name + ".weight", shape, fill);
  HostTensor bias(DType::kF32, {shape[0]});
  if (b.fill_weights()) fill_random(bias, name + ".bias", {.half_width = 0.2});
  HostTensor bias_ints(DType::kI32, {shape[0]});
  HostTensor bias_scales(DType::kF32, {shape[0]});
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    const double step = x.scale * q.scales.get_float(i);
    bias_scales.set_float(i, step);
    bias_ints.set_int(i, std::lround(bias.get_float(i) / step));
  }
  const Value w = b.initializer(name + ".weight_quantized", std::move(q.bytes));
  const Value w_scale = b.initializer(name + ".weight_scale", std::move(q.scales));
  const Value w_zero =
      b.initializer(name + ".weight_zero_point", HostTensor(DType::kI8, {shape[0]}));
  const Value c = b.initializer(name + ".bias_quantized", std::move(bias_ints));
  const Value c_scale = b.initializer(name + ".bias_quantized_scale", std::move(bias_scales));
  const Value c_zero =
      b.initializer(name + ".bias_quantized_zero_point", HostTensor(DType::kI32, {shape[0]}));
  const Attributes axis = {attr("axis", 0)};
  return {b.node("DequantizeLinear", {w, w_scale, w_zero}, shape, axis, {}, DType::kF32),
          b.node("DequantizeLinear", {c, c_scale, c_zero}, {shape[0]}, axis, {}, DType::kF32)};
}

Value conv_quantized(ModelBuilder& b, const Value& x, const std::string& name, const ConvSpec& spec,
                     Act act) {
  b.scope(name);
  const Window& window = spec.window;
  const std::int64_t channels = x.dim(1) / spec.group;
  Shape weight_shape = {spec.out, channels, window.kernel[0], window.kernel[1]};
  Shape shape = {x.dim(0), spec.out, window_size(b, name, x.dim(2), window, 0),
                 window_size(b, name, x.dim(3), window, 1)};
  const std::int64_t fan_in = channels * window.kernel[0] * window.kernel[1];
  const bool depthwise = channels == 1;
  const double square_sum = static_cast<double>(std::max<std::int64_t>(1, fan_in)) *
                            (depthwise ? x.moments.mean_square() : x.moments.var);
  const Fill fill = spread_filters(1 / std::sqrt(square_sum), fan_in, !depthwise);
  std::vector<Value> inputs = {x};
  for (const Value& v : dequantized_weights(b, x, name, weight_shape, fill)) inputs.push_back(v);
  const std::vector<std::int64_t> pads = {window.pad[0], window.pad[1], window.pad[0],
                                          window.pad[1]};
  const Value y = b.node(
      "Conv", inputs, shape,
      {attr("dilations", window.dilation), attr("group", spec.group),
       attr("kernel_shape", window.kernel), attr("pads", pads), attr("strides", window.stride)},
      {.var = 1});
  return quantize(b, activate(b, y, act));
}

}  // namespace

Value quantize(ModelBuilder& b, const Value& x) {
  const double deviation = std::sqrt(x.moments.var);
  const double low = std::min(0.0, std::max(x.moments.low, x.moments.mean - 5 * deviation));
  const double high = std::max(1e-3, std::min(x.moments.high, x.moments.mean + 5 * deviation));
  const auto scale = static_cast<float>((high - low) / 255);
  const std::int64_t zero = std::lround(-low / scale);
  if (b.failed()) return x;
  const Value s = b.initializer(x.name + "_scale", float_tensor({}, scale));
  const Value z = b.initializer(x.name + "_zero_point", byte_scalar(DType::kU8, zero));
  const Value q = b.node("QuantizeLinear", {x, s, z}, x.shape, {}, x.moments, DType::kU8);
  Value y = b.node("DequantizeLinear", {q, s, z}, x.shape, {}, x.moments, DType::kF32);
  y.scale = scale;
  return y;
}

Value quantize_like(ModelBuilder& b, const Value& x, const Value& like) {
  return like.scale > 0 ? quantize(b, x) : x;
}

Value conv_bn(ModelBuilder& b, const Value& x, const std::string& conv_name,
              const std::string& bn_name, const ConvSpec& spec, Act act, double epsilon) {
  if (x.scale > 0) return conv_quantized(b, x, conv_name, spec, act);
  const Value y = conv(b, x, conv_name, spec);
  // Around 1 a swish grows faster than its input: an error in the expected variance would double
  // every few layers. Around 0.4 it is nearly linear.
  const double gain = act == Act::kSilu || act == Act::kHardSwish ? 0.4 : spec.norm_gain;
  return activate(b, batch_norm(b, y, bn_name, epsilon, gain), act);
}

Value residual(ModelBuilder& b, const Value& x, const Value& y, Act act) {
  b.scope("");
  return quantize_like(b, activate(b, add(b, x, y), act), x);
}

Value squeeze_excite(ModelBuilder& b, const Value& x, const std::string& name,
                     std::int64_t squeezed, Act act, Value (*gate)(ModelBuilder&, const Value&)) {
  Value y = global_average_pool(b, x);
  y = activate(b, conv(b, y, name + ".fc1", {squeezed, square(1), 1, true}), act);
  // Half the usual weights: gates that saturate let the variance grow from block to block.
  y.moments.var *= 4;
  y = conv(b, y, name + ".fc2", {x.dim(1), square(1), 1, true});
  y.moments.var = 0.25;
  y = mul(b, gate(b, y), x);
  // Gates and averages are not independent: large channels open their own gates further.
  y.moments.var *= 1.3;
  return y;
}

Value classifier(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out) {
  if (x.scale == 0) return linear(b, x, name, out);
  b.scope(name);
  const std::int64_t in = x.dim(1);
  const double square_sum = static_cast<double>(std::max<std::int64_t>(1, in)) * x.moments.var;
  std::vector<Value> inputs = {x};
  const Fill fill = spread_filters(1 / std::sqrt(square_sum), in, true);
  for (const Value& v : dequantized_weights(b, x, name, {out, in}, fill)) inputs.push_back(v);
  const Value y = b.node("Gemm", inputs, {x.dim(0), out},
                         {attr("alpha", 1.0), attr("beta", 1.0), attr("transB", 1)}, {.var = 1});
  return quantize(b, y);
}

Value classify(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t classes) {
  const Value pooled = quantize_like(b, global_average_pool(b, x), x);
  Value flat = flatten(b, pooled);
  flat.scale = pooled.scale;
  return classifier(b, flat, name, classes);
}

Value linear_dynamic(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out) {
  b.scope(name);
  const std::int64_t in = x.dim(1);
  if (!b.reserve(name, {in, out}, DType::kF32)) return x;
  // The range, and with it the scale, is that of the tensor at run time: three outputs.
  std::vector<Value> q = b.nodes("DynamicQuantizeLinear", {x}, {x.shape, {}, {}}, {}, x.moments);
  q[0].dtype = q[2].dtype = DType::kU8;
  const double gain = 1 / std::sqrt(static_cast<double>(in) * x.moments.mean_square());
  HostTensor bytes(DType::kI8, {in, out});
  const double largest = spread(gain).half_width;
  if (b.fill_weights()) {
    HostTensor values(DType::kF32, {in, out});
    fill_random(values, name + ".weight", spread(gain));
    for (std::int64_t i = 0; i < values.size(); ++i) {
      bytes.set_int(i, std::lround(values.get_float(i) / largest * 127));
    }
  }
  const Value w = b.initializer(name + ".weight_quantized", std::move(bytes));
  const Value w_zero = b.initializer(name + ".weight_zero_point", byte_scalar(DType::kI8, 0));
  const Value w_scale = b.initializer(name + ".weight_scale", float_tensor({}, largest / 127));
  const Value product =
      b.node("MatMulInteger", {q[0], w, q[2], w_zero}, {x.dim(0), out}, {}, {}, DType::kI32);
  const Value as_float = b.node("Cast", {product}, product.shape, {attr("to", 1)}, {}, DType::kF32);
  const Value step = mul(b, q[1], w_scale);
  const Value bias = b.weight(name + ".bias", {out}, {.half_width = 0.1});
  Value y = add(b, mul(b, as_float, step), bias);
  y.moments = {.var = 1};
  return y;
}

}  // namespace tessera::zoo
