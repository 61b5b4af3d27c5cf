#include "tessera/frontend/zoo/layers.h"

#include <algorithm>
#include <cmath>

#include "tessera/frontend/zoo/moments.h"

namespace tessera::zoo {
namespace {

std::vector<std::int64_t> both_sides(const std::vector<std::int64_t>& pad) {
  std::vector<std::int64_t> pads = pad;
  pads.insert(pads.end(), pad.begin(), pad.end());
  return pads;
}

std::int64_t volume(const std::vector<std::int64_t>& kernel) { return elements(kernel); }

// Standard deviation of weights for which sums of `fan_in` products have variance 1.
double unit_gain(std::int64_t fan_in, double input_square) {
  return 1 / std::sqrt(std::max(1.0, static_cast<double>(fan_in)) * std::max(input_square, 1e-6));
}

Attributes conv_attributes(const ConvSpec& spec) {
  return {attr("dilations", spec.window.dilation), attr("group", spec.group),
          attr("kernel_shape", spec.window.kernel), attr("pads", both_sides(spec.window.pad)),
          attr("strides", spec.window.stride)};
}

constexpr double kBiasWidth = 0.1;

std::vector<Value> with_bias(ModelBuilder& b, std::vector<Value> inputs, const std::string& name,
                             const ConvSpec& spec) {
  if (spec.bias) {
    inputs.push_back(b.weight(name + ".bias", {spec.out}, {.half_width = kBiasWidth}));
  }
  return inputs;
}

}  // namespace

Window square(std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  return {{kernel, kernel}, {stride, stride}, {pad, pad}, {1, 1}};
}

Window same(std::int64_t kernel_h, std::int64_t kernel_w) {
  return {{kernel_h, kernel_w}, {1, 1}, {kernel_h / 2, kernel_w / 2}, {1, 1}};
}

std::int64_t window_size(ModelBuilder& b, const std::string& name, std::int64_t in,
                         const Window& window, std::size_t d, bool ceil_mode) {
  if (b.failed()) return 1;
  const std::int64_t reach = window.dilation[d] * (window.kernel[d] - 1) + 1;
  const std::int64_t room = in + 2 * window.pad[d] - reach;
  if (room < 0) {
    b.refuse("{}: a window of {} does not fit the padded input of {}; give a larger size", name,
             reach, in + 2 * window.pad[d]);
    return 1;
  }
  std::int64_t out = room / window.stride[d] + 1;
  // A window that would begin in the padding behind the data is dropped.
  if (ceil_mode && room % window.stride[d] != 0 && out * window.stride[d] < in + window.pad[d]) {
    ++out;
  }
  return out;
}

Value conv(ModelBuilder& b, const Value& x, const std::string& name, const ConvSpec& spec) {
  b.scope(name);
  const std::int64_t channels = x.dim(1) / spec.group;
  const std::int64_t fan_in = channels * volume(spec.window.kernel);
  // A depthwise filter that sums to zero would remove everything but edges.
  const bool centred = channels > 1;
  Shape weight_shape = {spec.out, channels};
  Shape shape = {x.dim(0), spec.out};
  for (std::size_t d = 0; d < spec.window.kernel.size(); ++d) {
    weight_shape.push_back(spec.window.kernel[d]);
    shape.push_back(window_size(b, name, x.dim(d + 2), spec.window, d));
  }
  const double input_square = centred ? x.moments.var : x.moments.mean_square();
  const Value w = b.weight(name + ".weight", weight_shape,
                           spread_filters(unit_gain(fan_in, input_square), fan_in, centred));
  return b.node("Conv", with_bias(b, {x, w}, name, spec), shape, conv_attributes(spec), {.var = 1});
}

Value conv_transpose(ModelBuilder& b, const Value& x, const std::string& name,
                     const ConvSpec& spec) {
  b.scope(name);
  const Window& window = spec.window;
  Shape weight_shape = {x.dim(1), spec.out};
  Shape shape = {x.dim(0), spec.out};
  double fan_in = static_cast<double>(x.dim(1));  // products per output, away from the border
  for (std::size_t d = 0; d < window.kernel.size(); ++d) {
    weight_shape.push_back(window.kernel[d]);
    shape.push_back((x.dim(d + 2) - 1) * window.stride[d] - 2 * window.pad[d] + window.kernel[d]);
    const std::int64_t overlap = window.kernel[d] / window.stride[d];
    fan_in *= static_cast<double>(std::clamp<std::int64_t>(overlap, 1, x.dim(d + 2)));
  }
  const double gain = unit_gain(static_cast<std::int64_t>(fan_in), x.moments.mean_square());
  const Value w = b.weight(name + ".weight", weight_shape, spread(gain));
  return b.node("ConvTranspose", with_bias(b, {x, w}, name, spec), shape, conv_attributes(spec),
                {.var = 1});
}

Value batch_norm(ModelBuilder& b, const Value& x, const std::string& name, double epsilon,
                 double gain) {
  b.scope(name);
  const std::int64_t channels = x.dim(1);
  const double deviation = std::sqrt(x.moments.var);
  const Value scale = norm_scale(b, name + ".weight", channels, gain);
  const Value shift = norm_shift(b, name + ".bias", channels, gain);
  const Value mean = b.weight(name + ".running_mean", {channels},
                              {.centre = x.moments.mean, .half_width = 0.1 * deviation});
  const Value var = b.weight(name + ".running_var", {channels},
                             {.centre = x.moments.var, .half_width = 0.2 * x.moments.var});
  return b.node("BatchNormalization", {x, scale, shift, mean, var}, x.shape,
                {attr("epsilon", epsilon), attr("momentum", 0.9)}, {.var = 1.05 * gain * gain});
}

Value max_pool(ModelBuilder& b, const Value& x, const Window& window, bool ceil_mode) {
  b.scope("");
  Shape shape = {x.dim(0), x.dim(1)};
  for (std::size_t d = 0; d < window.kernel.size(); ++d) {
    shape.push_back(window_size(b, "MaxPool", x.dim(d + 2), window, d, ceil_mode));
  }
  // The largest of 4 to 9 values lies about one and a half deviations above their mean.
  Moments m = x.moments;
  m.mean += 1.4 * std::sqrt(m.var);
  return b.node("MaxPool", {x}, shape,
                {attr("ceil_mode", ceil_mode ? 1 : 0), attr("kernel_shape", window.kernel),
                 attr("pads", both_sides(window.pad)), attr("strides", window.stride)},
                m);
}

Value average_pool(ModelBuilder& b, const Value& x, const Window& window, bool count_include_pad) {
  b.scope("");
  Shape shape = {x.dim(0), x.dim(1)};
  for (std::size_t d = 0; d < window.kernel.size(); ++d) {
    shape.push_back(window_size(b, "AveragePool", x.dim(d + 2), window, d));
  }
  Moments m = x.moments;
  m = average_of(m, static_cast<double>(volume(window.kernel)));
  return b.node("AveragePool", {x}, shape,
                {attr("ceil_mode", 0), attr("count_include_pad", count_include_pad ? 1 : 0),
                 attr("kernel_shape", window.kernel), attr("pads", both_sides(window.pad)),
                 attr("strides", window.stride)},
                m);
}

Value global_average_pool(ModelBuilder& b, const Value& x) {
  b.scope("");
  Shape shape = x.shape;
  Moments m = x.moments;
  double area = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) {
    area *= static_cast<double>(shape[d]);
    shape[d] = 1;
  }
  m = average_of(m, area);
  return b.node("GlobalAveragePool", {x}, shape, {}, m);
}

Value linear(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out) {
  b.scope(name);
  const std::int64_t in = x.dim(1);
  const Value w =
      b.weight(name + ".weight", {out, in}, spread_filters(unit_gain(in, x.moments.var), in, true));
  const Value bias = b.weight(name + ".bias", {out}, {.half_width = kBiasWidth});
  return b.node("Gemm", {x, w, bias}, {x.dim(0), out},
                {attr("alpha", 1.0), attr("beta", 1.0), attr("transB", 1)}, {.var = 1});
}

Value dense(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out, bool bias) {
  b.scope(name);
  const std::int64_t in = x.shape.back();
  const Value w =
      b.weight(name + ".weight", {in, out}, spread(unit_gain(in, x.moments.mean_square())));
  const Value y = matmul(b, x, w, {.var = 1});
  if (!bias) return y;
  return add(b, b.weight(name + ".bias", {out}, {.half_width = kBiasWidth}), y);
}

Value norm_scale(ModelBuilder& b, const std::string& name, std::int64_t size, double gain) {
  return b.weight(name, {size}, {.centre = gain, .half_width = 0.25 * gain});
}

Value norm_shift(ModelBuilder& b, const std::string& name, std::int64_t size, double gain) {
  return b.weight(name, {size}, {.half_width = 0.25 * gain});
}

Value layer_norm(ModelBuilder& b, const Value& x, const std::string& name, double epsilon) {
  b.scope(name);
  const Value scale = norm_scale(b, name + ".weight", x.shape.back());
  const Value shift = norm_shift(b, name + ".bias", x.shape.back());
  return b.node("LayerNormalization", {x, scale, shift}, x.shape,
                {attr("axis", -1), attr("epsilon", epsilon)}, {.var = 1.05});
}

Value layer_norm_decomposed(ModelBuilder& b, const Value& x, const std::string& name,
                            double epsilon) {
  b.scope(name);
  const Value mean = reduce_mean(b, x, {-1}, true);
  const Value centred = sub(b, x, mean);
  const Value squared = b.node("Pow", {centred, b.scalar(2)}, x.shape, {}, {.mean = x.moments.var});
  const Value var = reduce_mean(b, squared, {-1}, true);
  const Value shifted = add(b, var, b.scalar(epsilon));
  const Value root = b.node("Sqrt", {shifted}, shifted.shape);
  const Value normal = div(b, centred, root);
  const Value scaled_value = mul(b, normal, norm_scale(b, name + ".weight", x.shape.back()));
  Value y = add(b, scaled_value, norm_shift(b, name + ".bias", x.shape.back()));
  y.moments = {.var = 1.05};
  return y;
}

}  // namespace tessera::zoo
