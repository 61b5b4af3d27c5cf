#include "tessera/frontend/onnx/ops/resize_table.h"

#include <algorithm>
#include <cmath>

namespace tessera::onnx {
namespace {

constexpr double kMostEntries = 1 << 27;  // of one table; longer axes are mistakes of the model

// Position in the input of output element `x`. Sizes that follow from the scale are used as real
// numbers, unrounded.
class Coordinates {
 public:
  Coordinates(const std::string& mode, const ResizeAxis& axis) : mode_(mode), axis_(axis) {
    in_ = static_cast<double>(axis.in);
    out_ = static_cast<double>(axis.out);
    // Scales are stored in single precision: one that is the quotient of the sizes but for this
    // rounding is taken as the quotient, so that exact positions stay exact.
    exact_ = static_cast<float>(axis.scale) == static_cast<float>(out_ / in_);
    width_ = exact_ ? out_ : axis.scale * in_;
  }

  static bool is_known(const std::string& mode) {
    for (const char* known :
         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
          "tf_half_pixel_for_nn", "tf_crop_and_resize"}) {
      if (mode == known) return true;
    }
    return false;
  }

  double operator()(std::int64_t i) const {
    const double x = static_cast<double>(i);
    if (mode_ == "asymmetric") return unscaled(x);
    if (mode_ == "tf_half_pixel_for_nn") return unscaled(x + 0.5);
    if (mode_ == "align_corners") return width_ == 1 ? 0 : x * (in_ - 1) / (width_ - 1);
    if (mode_ == "pytorch_half_pixel" && axis_.out <= 1) return 0;
    if (mode_ == "tf_crop_and_resize") return cropped(x);
    const double centre = unscaled(x + 0.5) - 0.5;
    // Keeps the middle of the image in place when rounding changed the size.
    if (mode_ == "half_pixel_symmetric") return centre + in_ / 2 * (1 - out_ / (axis_.scale * in_));
    return centre;
  }

 private:
  double unscaled(double x) const { return exact_ ? x * in_ / out_ : x / axis_.scale; }

  double cropped(double x) const {
    const double start = axis_.first * (in_ - 1), length = (axis_.last - axis_.first) * (in_ - 1);
    return width_ == 1 ? start + length / 2 : start + x * length / (width_ - 1);
  }

  const std::string& mode_;
  const ResizeAxis& axis_;
  double in_, out_, width_;
  bool exact_;
};

Result<std::int64_t> nearest(const std::string& mode, double x) {
  const auto whole = [](double v) { return static_cast<std::int64_t>(v); };
  if (mode == "round_prefer_floor") return whole(std::ceil(x - 0.5));
  if (mode == "round_prefer_ceil") return whole(std::floor(x + 0.5));
  if (mode == "floor") return whole(std::floor(x));
  if (mode == "ceil") return whole(std::ceil(x));
  return make_error(ErrorCode::kInvalidArgument, "nearest_mode '{}'", mode);
}

double linear_weight(double distance) { return std::max(0.0, 1 - std::abs(distance)); }

double cubic_weight(double distance, double a) {
  const double s = std::abs(distance);
  if (s <= 1) return ((a + 2) * s - (a + 3)) * s * s + 1;
  if (s < 2) return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a;
  return 0;
}

// Appends the weights of the taps around `x`.
void add_row(const ResizeMode& mode, const ResizeAxis& axis, double x, double stretch,
             std::int64_t reach, ResizeTable& table) {
  const std::int64_t base = static_cast<std::int64_t>(std::floor(x));
  double sum = 0;
  const std::size_t begin = table.weight.size();
  for (std::int64_t k = 1 - reach; k <= reach; ++k) {
    const std::int64_t at = base + k;
    const double distance = (static_cast<double>(at) - x) * stretch;
    double w =
        mode.mode == "linear" ? linear_weight(distance) : cubic_weight(distance, mode.cubic_a);
    if (mode.exclude_outside && (at < 0 || at >= axis.in)) w = 0;
    table.index.push_back(std::clamp<std::int64_t>(at, 0, axis.in - 1));
    table.weight.push_back(w);
    sum += w;
  }
  if (!mode.exclude_outside && !mode.antialias) return;
  for (std::size_t i = begin; i < table.weight.size() && sum != 0; ++i) table.weight[i] /= sum;
}

// A table whose rows each have one weight of 1 needs no weights.
void drop_trivial_weights(ResizeTable& table) {
  const std::size_t taps = static_cast<std::size_t>(table.taps);
  std::vector<std::int64_t> only;
  for (std::size_t row = 0; row < table.weight.size(); row += taps) {
    std::size_t count = 0;
    for (std::size_t k = row; k < row + taps; ++k) {
      if (table.weight[k] == 0) continue;
      if (table.weight[k] != 1 || ++count > 1) return;
      only.push_back(table.index[k]);
    }
    if (count == 0) return;
  }
  table.taps = 1;
  table.index = std::move(only);
  table.weight.clear();
}

}  // namespace

Result<ResizeTable> resize_table(const ResizeMode& mode, const ResizeAxis& axis) {
  if (!Coordinates::is_known(mode.coordinates)) {
    return make_error(ErrorCode::kInvalidArgument, "coordinate_transformation_mode '{}'",
                      mode.coordinates);
  }
  if (mode.mode != "nearest" && mode.mode != "linear" && mode.mode != "cubic") {
    return make_error(ErrorCode::kInvalidArgument, "mode '{}' is not nearest, linear or cubic",
                      mode.mode);
  }
  const double stretch = mode.antialias ? std::min(1.0, axis.scale) : 1.0;
  const double support = mode.mode == "cubic" ? 2 : 1;
  const double taps = mode.mode == "nearest" ? 1 : 2 * std::ceil(support / stretch);
  if (!(taps * static_cast<double>(std::max<std::int64_t>(axis.out, 1)) <= kMostEntries)) {
    return make_error(ErrorCode::kUnsupported, "an axis of {} resized to {} takes {} weights",
                      axis.in, axis.out, taps * static_cast<double>(axis.out));
  }
  ResizeTable table;
  table.taps = static_cast<std::int64_t>(taps);
  const std::int64_t reach = table.taps / 2;
  const Coordinates position(mode.coordinates, axis);
  const double limit = static_cast<double>(axis.in);
  for (std::int64_t i = 0; i < axis.out; ++i) {
    const double raw = position(i);
    // Far outside, only the edge is seen: beyond one more image nothing changes.
    const double x = std::isnan(raw) ? 0 : std::clamp(raw, -3 * limit - 8, 4 * limit + 8);
    table.outside.push_back(mode.coordinates == "tf_crop_and_resize" &&
                            !(raw >= 0 && raw <= limit - 1));
    if (mode.mode == "nearest") {
      TESSERA_TRY(const std::int64_t at, nearest(mode.nearest, x));
      table.index.push_back(std::clamp<std::int64_t>(at, 0, axis.in - 1));
    } else {
      add_row(mode, axis, x, stretch, reach, table);
    }
  }
  if (mode.mode != "nearest") drop_trivial_weights(table);
  return table;
}

}  // namespace tessera::onnx
