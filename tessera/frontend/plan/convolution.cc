#include "tessera/frontend/plan/convolution.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "tessera/frontend/plan/columns.h"
#include "tessera/lang/te/ops/winograd.h"
#include "tessera/lang/te/ops/winograd_transposed.h"

namespace tessera::plan {
namespace {

// Of elements that one lane of a matrix instruction multiplies and adds up.
constexpr std::int64_t kGroupBytes = 4;

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

bool has_tiles(const Convolution& c, std::int64_t m) {
  if (c.transposed) return te::has_winograd(transposed_windows(c), m);
  const std::size_t rank = c.window.size();
  return te::has_winograd(c.window[rank - 2], c.window[rank - 1], m);
}

bool takes_winograd(const Convolution& c) {
  const std::size_t rank = c.window.size();
  // Of a single element, every tap is met once.
  const bool point = c.transposed && elements(c.in) == c.in[0] * c.in.back();
  const bool shape = c.transposed ? c.channels_last && c.groups == 1 && rank == 2 && !point
                                  : is_dense(c) && (rank == 2 || rank == 3);
  return shape && c.transformable && elements(c.out) > 0 && c.in.back() > 0 && has_tiles(c, 2);
}

// Height, width and all frames of results [n, h, w, co] or [n, d, h, w, co].
struct Maps {
  std::int64_t height, width, frames;

  explicit Maps(const Shape& out)
      : height(out[out.size() - 3]),
        width(out[out.size() - 2]),
        frames(out.size() > 4 ? out[0] * out[1] : out[0]) {}
};

// What one pair of channels takes: elements of the weights, and how often each is multiplied.
struct Products {
  std::int64_t weights = 1, uses = 1;
};

// With output tiles of m x m (0: direct), for one frame of a window with depth.
Products products_of(const Convolution& c, std::int64_t m) {
  const Maps maps(c.out);
  const std::int64_t sizes[2] = {maps.height, maps.width};
  Products out{1, maps.frames};
  const std::size_t rank = c.window.size();
  for (std::size_t d = 0; d < 2; ++d) {
    const std::size_t axis = rank - 2 + d;
    const std::int64_t taps = c.window[axis], stride = c.transposed ? c.strides[axis] : 1;
    const auto tiles = [&](std::int64_t tile) { return (sizes[d] + tile - 1) / tile; };
    if (m == 0 || (!c.transposed && taps == 1)) {
      out.weights *= taps;
      out.uses *= c.transposed ? c.in[1 + axis] : sizes[d];
    } else if (c.transposed) {
      out.weights *= stride * te::PhasedAxis(transposed_windows(c)[d]).products(m);
      out.uses *= tiles(stride * m);
    } else {
      out.weights *= te::winograd_products(taps, m);
      out.uses *= tiles(m);
    }
  }
  return out;
}

// Operations for one pair of channels, or those that would fit into the time in which its weights
// are read, if that is longer. Few weights are read at once, ahead.
double work_of(const Convolution& c, const Products& p, double flops_per_byte) {
  constexpr double kFewBytes = 32 << 10;
  const double flops = 2.0 * static_cast<double>(p.weights * p.uses);
  const double bytes = static_cast<double>(p.weights) * size_bytes(DType::kF32);
  const bool few = bytes * static_cast<double>(c.in.back() * c.out.back()) <= kFewBytes;
  return few ? flops : std::max(flops, flops_per_byte * bytes);
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

std::vector<te::TransposedWindow> transposed_windows(const Convolution& c) {
  std::vector<te::TransposedWindow> out;
  for (std::size_t d = 0; d < c.window.size(); ++d) {
    out.push_back({.axis = d == 0 ? "h" : "w",
                   .size = c.in[1 + d],
                   .kernel = c.window[d],
                   .stride = c.strides[d],
                   .dilation = c.dilations.empty() ? 1 : c.dilations[d],
                   .pad_lo = c.before[d],
                   .out = c.out[1 + d]});
  }
  return out;
}

std::string algorithm_key(const Convolution& c) {
  if (c.transposed) {
    return fmt::format("conv_transpose {} k{} s{} p{},{}", maps_key(c), fmt::join(c.window, "x"),
                       fmt::join(c.strides, ","), fmt::join(c.before, ","),
                       fmt::join(c.after, ","));
  }
  return fmt::format("conv {} k{} s1 p{},{} g1", maps_key(c), fmt::join(c.window, "x"),
                     fmt::join(c.before, ","), fmt::join(c.after, ","));
}

namespace {

bool is_three_by_three(const Convolution& c) {
  const std::size_t rank = c.window.size();
  return !c.transposed && c.window[rank - 2] == 3 && c.window[rank - 1] == 3;
}

// Few channels leave the transforms unpaid; small maps waste most of their 4x4 tiles.
bool may_transform(const Convolution& c, const Rules& rules) {
  if (!rules.winograd) return false;
  if (is_three_by_three(c)) {
    return std::min(c.in.back(), c.out.back()) >= rules.winograd_min_channels &&
           fills_tiles(c.out, rules);
  }
  return c.window.size() == 2 &&
         (c.transposed ? rules.winograd_transposed : rules.winograd_windows);
}

// Operations that fit into the time in which an element is transformed, written and read.
constexpr double kTransform = 25;

// ... for one pair of channels.
double transforms_of(const Convolution& c, const Products& p) {
  const double elements = static_cast<double>(p.weights * p.uses);
  return kTransform * elements *
         (1 / static_cast<double>(c.in.back()) + 1 / static_cast<double>(c.out.back()));
}

// Times the weights. Windows of 8x8 with stride 4 would have nine times as many, and gain a tenth:
// 151 MB instead of 17 for 256 channels.
constexpr std::int64_t kMostGrowth = 7;

}  // namespace

// F(4 x 4, 3 x 3) takes 36 products for 16 outputs instead of 144, with an error that f32 hides,
// and four times the weights: where few tiles share them, memory decides.
const std::string& preferred_algorithm(const Convolution& c, const Rules& rules) {
  std::size_t best = 0;
  const std::vector<te::ConvAlgorithm>& algorithms = te::conv_algorithms();
  if (may_transform(c, rules)) {
    const Products direct = products_of(c, 0);
    double least = work_of(c, direct, rules.flops_per_byte);
    for (std::size_t i = 1; i < algorithms.size(); ++i) {
      if (algorithms[i].tile > 4) continue;  // rounds too much to be taken unseen
      if (!has_tiles(c, algorithms[i].tile)) continue;
      const Products products = products_of(c, algorithms[i].tile);
      if (products.weights > kMostGrowth * direct.weights) continue;
      double work = work_of(c, products, rules.flops_per_byte);
      if (!is_three_by_three(c)) work += transforms_of(c, products);
      if (work > least) continue;
      least = work;
      best = i;
    }
  }
  return convolution_algorithms()[best];
}

std::optional<Point> algorithm_point(const Convolution& c, const Rules& rules) {
  if (takes_winograd(c)) {
    const Point point =
        make_point(PointKind::kAlgorithm, algorithm_key(c), preferred_algorithm(c, rules));
    return with_values(point, [&](const std::string& name) {
      const int tile = te::winograd_tile(name);
      return tile == 0 || has_tiles(c, tile);
    });
  }
  if (!c.transposed && is_product(c)) {
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

std::int64_t row_group(DType image) {
  const bool narrow = image == DType::kBF16 || image == DType::kI8 || image == DType::kU8;
  return narrow ? kGroupBytes / size_bytes(image) : 0;
}

// GPUs gather windows (columns_point).
std::optional<Point> rows_point(const Convolution& c, DType image, const Rules& rules) {
  constexpr std::int64_t kFewChannels = 8;
  const std::int64_t group = row_group(image), channels = c.in.back();
  const bool fits = c.channels_last && !c.transposed && c.groups == 1 && c.window.size() == 2 &&
                    c.dilations[1] == 1 && elements(c.out) > 0;
  if (rules.slices_in_place || group == 0 || !fits || channels >= kFewChannels ||
      c.window[1] == 1 || (channels == 1 && c.window[1] % group == 0))
    return std::nullopt;
  return make_point(PointKind::kPointwise,
                    fmt::format("rows {} k{} s{}", maps_key(c), fmt::join(c.window, "x"),
                                fmt::join(c.strides, ",")),
                    kProduct);
}

// Direct phases take rows of a map at a time, and read the weights again for each: with short rows,
// memory and the sums wait for each other. 4 x 4 maps of 1024 channels to 8 x 8 of 512 take 1.67 ms
// as products, directly 2.69, on one core with AVX-512.
std::optional<Point> transposed_columns_point(const Convolution& c, const Rules& rules) {
  constexpr std::int64_t kShortRow = 8, kFewPositions = 64;
  if (!c.transposed || !c.channels_last || c.groups != 1 || c.window.size() != 2 ||
      !all(c.dilations, 1) || elements(c.in) == 0 || elements(c.out) == 0) {
    return std::nullopt;
  }
  const std::int64_t positions = elements(c.in) / c.in.back();
  if (positions <= c.in[0] || positions > kFewPositions || c.in[2] >= kShortRow)
    return std::nullopt;
  return make_point(PointKind::kPointwise,
                    fmt::format("columns_transpose {} k{} s{}", maps_key(c),
                                fmt::join(c.window, "x"), fmt::join(c.strides, ",")),
                    rules.slices_in_place ? kDirect : kProduct);
}

int rounding(const std::string& algorithm) { return te::winograd_tile(algorithm); }

}  // namespace tessera::plan
