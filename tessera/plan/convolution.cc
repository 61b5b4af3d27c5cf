#include "tessera/plan/convolution.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "tessera/plan/columns.h"
#include "tessera/te/ops/winograd.h"

namespace tessera::plan {
namespace {

bool all(const Shape& items, std::int64_t v) {
  return std::all_of(items.begin(), items.end(), [&](std::int64_t i) { return i == v; });
}

// One group whose windows are contiguous and overlap fully.
bool is_dense(const Convolution& c) {
  return c.channels_last && c.groups == 1 && all(c.strides, 1) && all(c.dilations, 1);
}

// A 1x1 window without padding: positions times channels, channels times channels.
bool is_product(const Convolution& c) {
  return is_dense(c) && all(c.window, 1) && all(c.before, 0) && all(c.after, 0);
}

bool takes_winograd(const Convolution& c) {
  const std::size_t rank = c.window.size();
  return is_dense(c) && c.transformable && (rank == 2 || rank == 3) && c.window[rank - 2] == 3 &&
         c.window[rank - 1] == 3 && elements(c.out) > 0 && c.in.back() > 0;
}

// Height, width and all frames of results [n, h, w, co] or [n, d, h, w, co].
struct Maps {
  std::int64_t height, width, frames;

  explicit Maps(const Shape& out)
      : height(out[out.size() - 3]),
        width(out[out.size() - 2]),
        frames(out.size() > 4 ? out[0] * out[1] : out[0]) {}
};

// Operations for one pair of channels and one frame of a window with output tiles of m x m (0:
// direct), or those that would fit into the time in which its weights are read, if that is longer.
double work_of(std::int64_t m, const Maps& out, double flops_per_byte) {
  const auto tiles = [&](std::int64_t size) { return m == 0 ? size : (size + m - 1) / m; };
  const std::int64_t weights = m == 0 ? 9 : (m + 2) * (m + 2);
  const std::int64_t uses = out.frames * tiles(out.height) * tiles(out.width);
  const double flops = 2.0 * static_cast<double>(weights * uses);
  return std::max(flops, flops_per_byte * static_cast<double>(weights) * size_bytes(DType::kF32));
}

// "n1 h56 w56 ci64 co256".
std::string maps_key(const Convolution& c) {
  static constexpr const char* kAxes[] = {"d", "h", "w"};
  std::string key = fmt::format("n{}", c.in[0]);
  const std::size_t rank = c.in.size() - 2;
  for (std::size_t d = 0; d < rank; ++d) {
    const char* axis = rank > 3 ? "x" : kAxes[3 - rank + d];
    key += fmt::format(" {}{}", axis, c.in[1 + d]);
  }
  return key + fmt::format(" ci{} co{}", c.in.back(), c.out.back());
}

// Frames of the smallest maps that fill tiles of 4 x 4 well.
constexpr std::int64_t kSmallFrame = 7;

bool fills_tiles(const Shape& shape, const Rules& rules) {
  const Maps out(shape);
  const std::int64_t least = std::min(out.height, out.width), size = rules.winograd_min_size;
  if (shape.size() == 4) return least >= size;
  return rules.winograd_depth && least >= std::min(kSmallFrame, size) &&
         out.frames * out.height * out.width >= size * size;
}

}  // namespace

const std::vector<std::string>& convolution_algorithms() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const te::ConvAlgorithm& a : te::conv_algorithms()) out.emplace_back(a.name);
    return out;
  }();
  return names;
}

std::string algorithm_key(const Convolution& c) {
  return fmt::format("conv {} k{} s1 p{},{} g1", maps_key(c), fmt::join(c.window, "x"),
                     fmt::join(c.before, ","), fmt::join(c.after, ","));
}

// Few channels leave the transforms unpaid; small maps waste most of their 4x4 tiles. F(4 x 4, 3 x
// 3) takes 36 products for 16 outputs instead of 144, with an error that f32 hides, and four times
// the weights: where few tiles share them, memory decides.
const std::string& preferred_algorithm(std::int64_t ci, std::int64_t co, const Shape& out,
                                       const Rules& rules) {
  std::size_t best = 0;
  const std::vector<te::ConvAlgorithm>& algorithms = te::conv_algorithms();
  if (rules.winograd && std::min(ci, co) >= rules.winograd_min_channels &&
      fills_tiles(out, rules)) {
    const Maps maps(out);
    for (std::size_t i = 1; i < algorithms.size(); ++i) {
      if (algorithms[i].tile > 4) continue;  // rounds too much to be taken unseen
      const double work = work_of(algorithms[i].tile, maps, rules.flops_per_byte);
      if (work <= work_of(algorithms[best].tile, maps, rules.flops_per_byte)) best = i;
    }
  }
  return convolution_algorithms()[best];
}

std::optional<Point> algorithm_point(const Convolution& c, const Rules& rules) {
  if (takes_winograd(c)) {
    return make_point(PointKind::kAlgorithm, algorithm_key(c),
                      preferred_algorithm(c.in.back(), c.out.back(), c.out, rules));
  }
  if (is_product(c)) {
    return make_point(PointKind::kPointwise, "pointwise " + maps_key(c),
                      rules.pointwise_as_product ? kProduct : kDirect);
  }
  return std::nullopt;
}

bool prefers_columns(std::int64_t ci, std::int64_t co, std::int64_t elements, const Rules& rules) {
  constexpr std::int64_t kStep = 16, kLeastColumns = 8, kLeastElements = 64;
  // Slices are read in place by the copies of GPUs, which also feed tensor cores.
  return rules.slices_in_place && ci < kStep && co >= kLeastColumns && elements >= kLeastElements;
}

namespace {

// Direct windows with strides copy what they skip, and rows of small maps leave most of a tile
// empty: on an H200, 3x3 windows of 16 maps of 7 x 7 reach 34 TFLOP/s with strides and 110 without,
// products 300 and more, 15 us with the gathering instead of 109 and 33. With less work the second
// kernel costs more than it saves.
bool may_gather(const Convolution& c, std::int64_t row, const Rules& rules) {
  constexpr std::int64_t kStep = 16, kSmallRow = 8;
  constexpr double kLeastWork = 5e8;
  const std::int64_t ci = c.in.back(), co = c.out.back();
  const bool small = c.out[c.out.size() - 2] < kSmallRow && !all(c.window, 1);
  return rules.slices_in_place && ci % kStep == 0 && co % kStep == 0 &&
         (!all(c.strides, 1) || small) &&
         2.0 * static_cast<double>(row) * static_cast<double>(elements(c.out)) >= kLeastWork;
}

}  // namespace

std::optional<Point> columns_point(const Convolution& c, const Rules& rules) {
  std::int64_t row = c.in.back();
  for (const std::int64_t n : c.window) row *= n;
  const bool preferred = prefers_columns(c.in.back(), c.out.back(), row, rules);
  if (!c.channels_last || c.groups != 1 || !(preferred || may_gather(c, row, rules)))
    return std::nullopt;
  return make_point(PointKind::kPointwise,
                    fmt::format("columns {} k{} s{}", maps_key(c), fmt::join(c.window, "x"),
                                fmt::join(c.strides, ",")),
                    kProduct);
}

int rounding(const std::string& algorithm) { return te::winograd_tile(algorithm); }

}  // namespace tessera::plan
