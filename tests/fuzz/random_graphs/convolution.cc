// Windows over images: convolutions and pools.
#include <algorithm>

#include "draw.h"

namespace tessera::fuzz {
namespace {

struct Windows {
  Shape kernel, strides, pads, dilations;
};

// Windows that fit an image of these sizes.
Windows windows(Draw& d, const Shape& image) {
  Windows w;
  Shape after;
  for (std::size_t k = 2; k < image.size(); ++k) {
    const std::int64_t n = image[k], kernel = d.between(1, std::min<std::int64_t>(n, 4));
    w.kernel.push_back(kernel);
    w.strides.push_back(d.chance(0.6) ? 1 : d.between(1, 3));
    w.dilations.push_back(d.chance(0.8) || (kernel - 1) * 2 + 1 > n ? 1 : 2);
    w.pads.push_back(d.chance(0.5) ? 0 : d.between(0, kernel - 1));
    after.push_back(d.chance(0.5) ? 0 : d.between(0, kernel - 1));
  }
  w.pads.insert(w.pads.end(), after.begin(), after.end());
  return w;
}

Attributes attributes_of(Draw& d, const Windows& w) {
  Attributes out = {attr("kernel_shape", w.kernel), attr("strides", w.strides)};
  const bool plain =
      std::all_of(w.dilations.begin(), w.dilations.end(), [](auto n) { return n == 1; });
  if (plain && d.chance(0.2)) {
    out.push_back(
        attr("auto_pad", d.one_of(std::vector<std::string>{"SAME_UPPER", "SAME_LOWER", "VALID"})));
  } else {
    out.push_back(attr("pads", w.pads));
    if (!plain) out.push_back(attr("dilations", w.dilations));
  }
  return out;
}

// [n, c, d...] with c a multiple of `groups`: one of the graph, or a fresh one.
std::string image(Draw& d, DType t, Range range) {
  const std::string x = d.find([&](const Traced& v) {
    const Shape& s = v.value.shape();
    if (v.value.dtype() != t || s.size() < 3 || s.size() > 5 || elements(s) == 0) return false;
    for (std::int64_t i = 0; i < v.value.size(); ++i) {
      const double e = is_float(t) ? v.value.get_float(i) : static_cast<double>(v.value.get_int(i));
      if (e < range.low || e > range.high) return false;
    }
    return true;
  });
  if (!x.empty() && d.chance(0.8)) return x;
  Shape s = {d.between(1, 2), d.one_of(Shape{1, 2, 3, 4, 6, 8, 16})};
  for (std::int64_t k = d.one_of(Shape{1, 2, 2, 2, 3}); k > 0; --k) s.push_back(d.between(1, 9));
  while (elements(s) > d.max_elements()) *std::max_element(s.begin(), s.end()) /= 2;
  return d.fresh(t, s, range);
}

std::int64_t divisor(Draw& d, std::int64_t n) {
  Shape all;
  for (std::int64_t k = 1; k <= n; ++k) {
    if (n % k == 0) all.push_back(k);
  }
  return d.chance(0.6) ? 1 : d.one_of(all);
}

// The border of an image as a node of its own, as some exporters write it.
std::string padded(Draw& d, const std::string& x) {
  Shape pads(2 * d.shape(x).size(), 0);
  for (std::size_t k = 0; k < pads.size(); ++k) {
    if (k % d.shape(x).size() >= 2) pads[k] = d.between(0, 2);
  }
  return d.emit("Pad", {x, d.integers(pads)}) ? d.outputs[0] : x;
}

bool conv(Draw& d, const OpRow& row) {
  std::string x = image(d, d.type(row.types), within(-20, 20));
  if (d.chance(0.2)) x = padded(d, x);
  const Shape s = d.shape(x);
  const DType t = d.dtype(x);
  const Windows w = windows(d, s);
  const std::int64_t group = divisor(d, s[1]);
  const std::int64_t filters = group * d.between(1, group > 2 ? 2 : 7);
  Shape ws = {filters, s[1] / group};
  ws.insert(ws.end(), w.kernel.begin(), w.kernel.end());
  Names in = {x, d.weight(t, ws)};
  if (d.chance(0.5)) in.push_back(d.weight(t, {filters}));
  Attributes attributes = attributes_of(d, w);
  attributes.push_back(attr("group", group));
  if (!d.emit(row.name, in, attributes)) return false;
  // What often follows: its constants go into the weights.
  if (!d.chance(0.3) || !is_float(t)) return true;
  const std::string y = d.outputs[0];
  const auto vector = [&](double low, double high) {
    return d.constant(d.tensor(t, {filters}, within(low, high)));
  };
  d.emit("BatchNormalization", {y, vector(0.5, 2), vector(-1, 1), vector(-1, 1), vector(0.5, 2)});
  return true;
}

bool conv_transpose(Draw& d, const OpRow& row) {
  const std::string x = image(d, d.type(row.types), within(-20, 20));
  const Shape s = d.shape(x);
  const DType t = d.dtype(x);
  const std::int64_t group = divisor(d, s[1]), filters = d.between(1, 4);
  Shape ws = {s[1], filters}, kernel, strides, pads;
  for (std::size_t k = 2; k < s.size(); ++k) {
    kernel.push_back(d.between(1, 3));
    strides.push_back(d.between(1, 2));
    pads.push_back(0);
    pads.push_back(0);
  }
  if (s.back() > 2 && kernel.back() > 1 && d.chance(0.5)) pads.back() = 1;
  ws.insert(ws.end(), kernel.begin(), kernel.end());
  Names in = {x, d.weight(t, ws)};
  if (d.chance(0.5)) in.push_back(d.weight(t, {filters * group}));
  return d.emit(row.name, in, {attr("strides", strides), attr("pads", pads), attr("group", group)});
}

bool conv_integer(Draw& d, const OpRow& row) {
  const std::string x = image(d, d.type(row.types), within(-128, 255));
  const Shape s = d.shape(x);
  const DType tx = d.dtype(x), tw = d.type(kBytes);
  const Windows w = windows(d, s);
  const std::int64_t filters = d.between(1, 5);
  Shape ws = {filters, s[1]};
  ws.insert(ws.end(), w.kernel.begin(), w.kernel.end());
  const std::string weights = d.weight(tw, ws, within(-100, 100));
  const double zero = tx == DType::kU8 ? 120 : 3;
  Attributes attributes = attributes_of(d, w);
  if (row.name == std::string("ConvInteger")) {
    Names in = {x, weights};
    if (d.chance(0.6)) in.push_back(d.scalar(tx, zero));
    if (in.size() == 3 && d.chance(0.4)) in.push_back(d.scalar(tw, 2));
    return d.emit(row.name, in, attributes);
  }
  const auto scale = [&](double low, double high, bool each) {
    return d.constant(d.tensor(DType::kF32, each ? Shape{filters} : Shape{}, within(low, high)));
  };
  const bool each = d.chance(0.5);
  Names in = {
      x,
      scale(0.01, 0.03, false),
      d.scalar(tx, zero),
      weights,
      scale(0.01, 0.03, each),
      each ? d.constant(HostTensor(tw, {filters})) : d.scalar(tw, tw == DType::kU8 ? 60 : 0),
      scale(0.2, 0.5, false),
      d.scalar(tx, zero)};
  if (d.chance(0.5)) in.push_back(d.constant(d.tensor(DType::kI32, {filters}, within(-500, 500))));
  return d.emit(row.name, in, attributes);
}

bool deform(Draw& d, const OpRow& row) {
  const std::int64_t n = 1, c = d.between(1, 3), h = d.between(3, 6), w = d.between(3, 6),
                     m = d.between(1, 3);
  const DType t = d.type(row.types);
  const Shape out = {n, 8, h - 1, w - 1};
  Names in = {d.shaped(t, {n, c, h, w}), d.weight(t, {m, c, 2, 2}),
              d.shaped(t, out, within(-0.9, 0.9))};
  if (d.chance(0.4)) in.push_back(d.weight(t, {m}));
  return d.emit(row.name, in, {attr("pads", Shape{0, 0, 0, 0})});
}

bool pool(Draw& d, const OpRow& row) {
  const std::string x = image(d, d.type(row.types), within(-1000, 1000));
  const std::string name = row.name;
  Windows w = windows(d, d.shape(x));
  if (name == "AveragePool" && d.opset < 19) w.dilations.assign(w.dilations.size(), 1);
  if (name == "LpPool" && d.opset < 18) w.dilations.assign(w.dilations.size(), 1);
  Attributes attributes = attributes_of(d, w);
  if (d.chance(0.3) && (name != "LpPool" || d.opset >= 18))
    attributes.push_back(attr("ceil_mode", 1));
  if (name == "AveragePool" && d.chance(0.5)) attributes.push_back(attr("count_include_pad", 1));
  if (name == "LpPool") attributes.push_back(attr("p", d.between(1, 3)));
  return d.emit(name, {x}, attributes, name == "MaxPool" && d.chance(0.2) ? 2 : 1);
}

bool quantized_pool(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types);
  const std::string x = image(d, t, within(-128, 255));
  Windows w = windows(d, d.shape(x));
  w.dilations.assign(w.dilations.size(), 1);
  Attributes attributes = attributes_of(d, w);
  if (d.chance(0.3)) attributes.push_back(attr("ceil_mode", 1));
  if (d.chance(0.5)) attributes.push_back(attr("count_include_pad", 1));
  const auto scale = [&] { return d.constant(d.tensor(DType::kF32, {}, within(0.02, 0.3))); };
  const auto zero = [&] { return d.constant(d.tensor(t, {}, within(0, 20))); };
  return d.emit(row.name, {x, scale(), zero(), scale(), zero()}, attributes, 1, row.domain);
}

bool global_pool(Draw& d, const OpRow& row) {
  return d.emit(row.name, {image(d, d.type(row.types), within(-1000, 1000))});
}

bool unpool(Draw& d, const OpRow& row) {
  const std::int64_t c = d.between(1, 3), h = 2 * d.between(1, 4), w = 2 * d.between(1, 4);
  const std::string x = d.shaped(d.type(row.types), {1, c, h, w}, within(-1000, 1000));
  const Shape two = {2, 2};
  if (!d.emit("MaxPool", {x}, {attr("kernel_shape", two), attr("strides", two)}, 2)) return false;
  const Names in = d.outputs;
  return d.emit(row.name, in, {attr("kernel_shape", two), attr("strides", two)});
}

}  // namespace

std::vector<OpRow> convolution_rows() {
  constexpr Types kPooled = kFloats;
  return {
      {"Conv", kFloats, conv, 11},
      {"Conv", kF32Only, conv, 11},
      {"ConvTranspose", kFloats, conv_transpose, 11},
      {"ConvInteger", kBytes, conv_integer, 10},
      {"QLinearConv", kBytes, conv_integer, 10},
      {"DeformConv", bit(DType::kF32) | bit(DType::kF64), deform, 19},
      {"AveragePool", kPooled, pool, 11},
      {"MaxPool", kPooled | kBytes, pool, 12},
      {"LpPool", kPooled, pool, 11},
      {"QLinearAveragePool", kBytes, quantized_pool, 1, kFree, {}, kMicrosoft},
      {"GlobalAveragePool", kPooled, global_pool},
      {"GlobalMaxPool", kPooled, global_pool},
      {"GlobalLpPool", kPooled, global_pool, 2},
      {"MaxUnpool", bit(DType::kF32) | bit(DType::kF64), unpool, 11},
  };
}

}  // namespace tessera::fuzz
