// ConvInteger and QLinearConv. Where the weights have no zero point the bytes are convolved as they
// are, padded with the zero point of the image, and zero point times sum of weights is subtracted.
#include <algorithm>

#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/frontend/onnx/ops/integers.h"
#include "tessera/frontend/onnx/ops/windows.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

// A per-channel parameter [m] (or one for all) as [m, 1, ...] of rank `rank`, at axis `axis`.
Term per_channel(Formula& f, Term x, std::int64_t axis, std::int64_t rank) {
  const Shape shape = f.shape(x);
  if (elements(shape) == 1) return f.reshape(x, {});
  return f.along(x, axis, rank);
}

struct ConvOperands {
  Term x, w;
  ValueId x_zero, w_zero;
};

// x surrounded by its zero point.
Term pad_image(Formula& f, Term x, Term zero, const Windows& windows) {
  Shape before = {0, 0}, after = {0, 0};
  before.insert(before.end(), windows.before.begin(), windows.before.end());
  after.insert(after.end(), windows.after.begin(), windows.after.end());
  return f.op("pad", {x, zero},
              {{"mode", std::string("constant")}, {"before", before}, {"after", after}});
}

Term convolve(Formula& f, Context& c, ConvOperands v, Windows windows, std::int64_t group) {
  const auto rank = static_cast<std::int64_t>(f.shape(v.x).size());
  const auto conv = [&](Term x, Term w) {
    graph::Attrs attrs = windows.attrs();
    attrs.set("group", group);
    return f.op("conv", {x, w}, std::move(attrs));
  };
  Term w = v.w;
  if (!is_zero(c.b, v.w_zero)) {
    w = without_zero_point(f, c, w, per_channel(f, f.value(v.w_zero), 0, rank));
  }
  const bool raw = size_bytes(f.dtype(w)) == 1;
  if (is_zero(c.b, v.x_zero)) return conv(raw ? v.x : f.cast(v.x, DType::kI32), w);
  const Term zero = f.reshape(f.value(v.x_zero), {});
  if (!raw) return conv(f.cast(v.x, DType::kI32) - f.cast(zero, DType::kI32), w);
  const auto pads = [](std::int64_t p) { return p != 0; };
  const bool padded = std::any_of(windows.before.begin(), windows.before.end(), pads) ||
                      std::any_of(windows.after.begin(), windows.after.end(), pads);
  const Term image = padded ? pad_image(f, v.x, zero, windows) : v.x;
  windows.before = windows.after = Shape(windows.before.size(), 0);
  std::vector<std::int64_t> axes;
  for (std::int64_t d = 1; d < rank; ++d) axes.push_back(d);
  const Term sums = f.reduce("sum", f.cast(w, DType::kI32), axes, false);
  return conv(image, w) - f.cast(zero, DType::kI32) * f.along(sums, 1, rank);
}

// Refuses what the formulas above would misread.
Result<void> check_types(const Context& c, std::size_t x, std::size_t w, ValueId x_zero) {
  const auto byte = [&](DType t) { return t == DType::kI8 || t == DType::kU8; };
  if (!byte(c.dtype(x)) || !byte(c.dtype(w))) {
    return make_error(ErrorCode::kUnsupported, "operands of {} and {}", to_text(c.dtype(x)),
                      to_text(c.dtype(w)));
  }
  if (x_zero != kNoValue && elements(c.b.shape(x_zero)) != 1) {
    return make_error(ErrorCode::kUnsupported, "a zero point of shape {} for the image",
                      to_text(c.b.shape(x_zero)));
  }
  return {};
}

Result<Values> import_conv_integer(Context& c) {
  const ValueId x_zero = optional_input(c, 2);
  TESSERA_DO(check_types(c, 0, 1, x_zero));
  TESSERA_TRY(const Shape kernel, spatial_sizes(c.shape(1)));
  TESSERA_TRY(const Windows windows, read_windows(c, kernel));
  TESSERA_TRY(const std::int64_t group, c.integer("group", 1));
  Formula f(c);
  return f.result(
      {convolve(f, c, {f.in(0), f.in(1), x_zero, optional_input(c, 3)}, windows, group)});
}

Result<Values> import_qlinear_conv(Context& c) {
  TESSERA_DO(check_types(c, 0, 3, c.in(2)));
  TESSERA_TRY(const Shape kernel, spatial_sizes(c.shape(3)));
  TESSERA_TRY(const Windows windows, read_windows(c, kernel));
  TESSERA_TRY(const std::int64_t group, c.integer("group", 1));
  Formula f(c);
  const std::int64_t rank = c.rank(0);
  Term acc = convolve(f, c, {f.in(0), f.in(3), c.in(2), c.in(5)}, windows, group);
  if (c.has(8)) acc = acc + f.along(f.in(8), 1, rank);
  const auto scalar = [&](std::size_t i) { return per_channel(f, f.in(i), 1, rank); };
  const Term scale = scalar(1) * scalar(4) / scalar(6);
  return f.result({requantize(f, acc, scale, scalar(7).id, c.dtype(7))});
}

}  // namespace

std::vector<OnnxOp> integer_conv_rows() {
  return {
      {"ConvInteger", 10, 2, 4, import_conv_integer},
      {"QLinearConv", 10, 8, 9, import_qlinear_conv},
  };
}

}  // namespace tessera::onnx
