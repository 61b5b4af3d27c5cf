#include "tessera/frontend/onnx/ops/windows.h"

#include <algorithm>

#include "tessera/support/ceil_div.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

constexpr std::int64_t kMaxAttribute = (std::int64_t{1} << 31) - 1;

Result<void> check_range(const char* name, const Shape& values, std::int64_t min) {
  for (const std::int64_t v : values) {
    if (v < min || v > kMaxAttribute) return invalid("{} {} is out of range", name, v);
  }
  return {};
}

// Padding so that there are ceil(size / stride) windows.
void pad_same(Windows& w, const Shape& sizes, bool upper) {
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    const std::int64_t reach = w.dilations[s] * (w.kernel[s] - 1) + 1;
    const std::int64_t out = ceil_div(sizes[s], w.strides[s]);
    const std::int64_t total =
        std::max<std::int64_t>(0, (out - 1) * w.strides[s] + reach - sizes[s]);
    w.before[s] = upper ? total / 2 : total - total / 2;
    w.after[s] = total - w.before[s];
  }
}

// Lengthens `after` so that a last, partial window exists; one that would start in the padding at
// the end does not.
void round_up(Windows& w, const Shape& sizes) {
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    const std::int64_t reach = w.dilations[s] * (w.kernel[s] - 1) + 1;
    const std::int64_t padded = sizes[s] + w.before[s] + w.after[s];
    std::int64_t out = ceil_div(padded - reach, w.strides[s]) + 1;
    const bool in_padding = (out - 1) * w.strides[s] >= sizes[s] + w.before[s];
    if (in_padding) --out;
    const std::int64_t used = (out - 1) * w.strides[s] + reach;
    w.uncounted[s] = std::max<std::int64_t>(0, used - padded);
    w.after[s] = in_padding ? std::max<std::int64_t>(0, used - sizes[s] - w.before[s])
                            : w.after[s] + w.uncounted[s];
  }
}

}  // namespace

graph::Attrs Windows::attrs() const {
  return {{"strides", strides},
          {"dilations", dilations},
          {"before", before},
          {"after", after},
          {"layout", std::string("nchw")}};
}

Result<Shape> spatial_sizes(const Shape& image) {
  if (image.size() < 3) return invalid("an image of shape {} has no size", to_text(image));
  return Shape(image.begin() + 2, image.end());
}

Result<Shape> spatial_attribute(const Context& c, const char* name, std::size_t rank,
                                std::int64_t min, std::int64_t absent) {
  TESSERA_TRY(Shape values, c.integers(name, Shape(rank, absent)));
  // Some exporters write an empty list for the default.
  if (values.empty()) values = Shape(rank, absent);
  if (values.size() != rank) {
    return invalid("{} has {} values for {} spatial dimensions", name, values.size(), rank);
  }
  TESSERA_DO(check_range(name, values, min));
  return values;
}

Result<void> read_pads(const Context& c, std::size_t rank, Shape* before, Shape* after) {
  TESSERA_TRY(Shape pads, c.integers("pads", Shape(2 * rank, 0)));
  if (pads.empty()) pads = Shape(2 * rank, 0);
  if (pads.size() != 2 * rank) {
    return invalid("pads has {} values for {} spatial dimensions", pads.size(), rank);
  }
  TESSERA_DO(check_range("pads", pads, 0));
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
  before->assign(pads.begin(), middle);
  after->assign(middle, pads.end());
  return {};
}

Result<std::string> read_auto_pad(const Context& c) {
  TESSERA_TRY(const std::string auto_pad, c.word("auto_pad", "NOTSET"));
  for (const char* known : {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}) {
    if (auto_pad == known) return auto_pad;
  }
  if (auto_pad.empty()) return std::string("NOTSET");
  return invalid("auto_pad {} is unknown", auto_pad);
}

Result<Windows> read_windows(const Context& c, const std::optional<Shape>& kernel) {
  TESSERA_TRY(const Shape sizes, spatial_sizes(c.shape(0)));
  const std::size_t rank = sizes.size();
  Windows w;
  if (!kernel && !c.has_attribute("kernel_shape")) {
    return invalid("attribute 'kernel_shape' is missing");
  }
  TESSERA_TRY(w.kernel, spatial_attribute(c, "kernel_shape", rank, 1, 1));
  if (kernel) {
    if (kernel->size() != rank || (c.has_attribute("kernel_shape") && w.kernel != *kernel)) {
      return invalid("weights of size {} for a kernel of {} and an image of {}", to_text(*kernel),
                     to_text(w.kernel), to_text(c.shape(0)));
    }
    TESSERA_DO(check_range("kernel_shape", *kernel, 1));
    w.kernel = *kernel;
  }
  TESSERA_TRY(w.strides, spatial_attribute(c, "strides", rank, 1, 1));
  TESSERA_TRY(w.dilations, spatial_attribute(c, "dilations", rank, 1, 1));
  w.before = w.after = w.uncounted = Shape(rank, 0);
  TESSERA_TRY(const std::string auto_pad, read_auto_pad(c));
  if (auto_pad == "NOTSET") TESSERA_DO(read_pads(c, rank, &w.before, &w.after));
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    pad_same(w, sizes, auto_pad == "SAME_UPPER");
  }
  TESSERA_TRY(const std::int64_t ceil_mode, c.integer("ceil_mode", 0));
  if (ceil_mode != 0) round_up(w, sizes);
  return w;
}

}  // namespace tessera::onnx
