// Operators of object detectors on boxes: non_max_suppression, roi_align, roi_max.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tessera/frontend/graph/ops/data_movement.h"
#include "tessera/frontend/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> detection_ops();

namespace {

using Tensors = std::vector<HostTensor>;
using Types = std::vector<TensorType>;
using Inputs = std::vector<const HostTensor*>;

// non_max_suppression {max_per_class, iou_threshold, score_threshold?, center_point_box}
// boxes f32[batch, n, 4], scores f32[batch, classes, n] -> i64[count, 3] of (batch, class, box).
Result<Types> infer_nms(const NodeView& node) {
  const Shape &boxes = node.shape(0), &scores = node.shape(1);
  const bool fits = boxes.size() == 3 && scores.size() == 3 && boxes[2] == 4 &&
                    boxes[0] == scores[0] && boxes[1] == scores[2] && is_float(node.dtype(0)) &&
                    is_float(node.dtype(1));
  if (!fits) {
    return bad_operand("boxes {} and scores {}: [batch, n, 4] and [batch, classes, n] are needed",
                       to_text(*node.types[0]), to_text(*node.types[1]));
  }
  return make_error(ErrorCode::kDataDependent, "the number of selected boxes is data");
}

struct Box {
  double y0, x0, y1, x1;
  double area() const { return (y1 - y0) * (x1 - x0); }
};

Box read_box(const HostTensor& boxes, std::int64_t at, bool center) {
  std::array<double, 4> v{};
  for (std::size_t k = 0; k < 4; ++k) v[k] = boxes.get_float(4 * at + static_cast<std::int64_t>(k));
  if (center) {  // x, y, width, height
    return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  }
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

bool overlaps(const Box& a, const Box& b, double threshold) {
  const double height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  const double width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (!(height > 0) || !(width > 0)) return false;
  const double shared = height * width, all = a.area() + b.area() - shared;
  return all > 0 && shared / all > threshold;
}

Result<Tensors> evaluate_nms(const NodeView& node, const Inputs& in) {
  const HostTensor &boxes = *in[0], &scores = *in[1];
  const std::int64_t batches = scores.shape()[0], classes = scores.shape()[1],
                     n = scores.shape()[2];
  const bool center = node.attrs.integer("center_point_box") != 0;
  const double iou = node.attrs.number("iou_threshold");
  const double least =
      node.attrs.number("score_threshold", -std::numeric_limits<double>::infinity());
  const std::int64_t limit = node.attrs.integer("max_per_class");
  std::vector<std::int64_t> selected;
  std::vector<std::pair<double, std::int64_t>> order;
  std::vector<Box> kept;
  for (std::int64_t row = 0; row < batches * classes; ++row) {
    order.clear();
    kept.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      const double score = scores.get_float(row * n + i);
      if (score > least) order.emplace_back(-score, i);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [score, i] : order) {
      if (static_cast<std::int64_t>(kept.size()) >= limit) break;
      const Box box = read_box(boxes, row / classes * n + i, center);
      const auto hides = [&](const Box& other) { return overlaps(box, other, iou); };
      if (std::any_of(kept.begin(), kept.end(), hides)) continue;
      kept.push_back(box);
      selected.insert(selected.end(), {row / classes, row % classes, i});
    }
  }
  HostTensor out(DType::kI64, {static_cast<std::int64_t>(selected.size()) / 3, 3});
  if (!selected.empty()) std::memcpy(out.data(), selected.data(), out.bytes());
  return Tensors{out};
}

Result<void> check_regions(const NodeView& node, std::int64_t columns) {
  const Shape &x = node.shape(0), &rois = node.shape(1);
  const std::int64_t height = node.attrs.integer("height"), width = node.attrs.integer("width");
  if (x.size() != 4 || rois.size() != 2 || rois[1] != columns || !is_float(node.dtype(0)) ||
      !is_float(node.dtype(1))) {
    return bad_operand("regions {} of {}", to_text(*node.types[1]), to_text(*node.types[0]));
  }
  if (height < 1 || width < 1) return bad_operand("output of {}x{}", height, width);
  if (elements(x) == 0 && rois[0] != 0) return bad_operand("regions of an empty image");
  return {};
}

// roi_align {height, width, sampling_ratio, spatial_scale, mode, half_pixel}
// x[N, C, H, W], rois[R, 4] of (x0, y0, x1, y1), batch i64[R] -> [R, C, height, width].
Result<Types> infer_roi_align(const NodeView& node) {
  TESSERA_DO(check_regions(node, 4));
  const std::int64_t regions = node.shape(1)[0];
  if (node.shape(2) != Shape{regions} || node.dtype(2) != DType::kI64)
    return bad_operand("batch indices {} for {} regions", to_text(*node.types[2]), regions);
  if (node.attrs.integer("sampling_ratio") < 0) return bad_operand("negative sampling_ratio");
  return single_type(node.dtype(0), {regions, node.shape(0)[1], node.attrs.integer("height"),
                                     node.attrs.integer("width")});
}

struct Tap {
  std::array<std::int64_t, 4> at;
  std::array<double, 4> weight;
};

// The four neighbours of a point of an image; weights zero more than one pixel outside.
Tap bilinear_tap(double y, double x, std::int64_t height, std::int64_t width) {
  if (!(y >= -1 && x >= -1 && y <= static_cast<double>(height) && x <= static_cast<double>(width)))
    return {};
  const auto split = [](double v, std::int64_t n) {
    v = std::max(v, 0.0);
    const std::int64_t low = std::min(static_cast<std::int64_t>(v), n - 1);
    const std::int64_t high = std::min(low + 1, n - 1);
    return std::tuple(low, high, low == high ? 0.0 : v - static_cast<double>(low));
  };
  const auto [y0, y1, fy] = split(y, height);
  const auto [x0, x1, fx] = split(x, width);
  return {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
          {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}};
}

constexpr double kMaxTaps =
    0x1p24;  // of one region: a gigabyte of taps is a mistake in its corners

// Samples per bin along one axis.
double samples(std::int64_t ratio, double extent, std::int64_t bins) {
  if (ratio > 0) return static_cast<double>(ratio);
  const double wanted = std::ceil(extent / static_cast<double>(bins));
  return wanted > 0 ? wanted : 0;
}

struct Bin {
  std::vector<Tap> taps;
};

Result<std::vector<Bin>> region_bins(const NodeView& node, const HostTensor& rois, std::int64_t r) {
  const double scale = node.attrs.number("spatial_scale");
  const bool half = node.attrs.integer("half_pixel") != 0;
  const std::int64_t rows = node.attrs.integer("height"), columns = node.attrs.integer("width"),
                     ratio = node.attrs.integer("sampling_ratio"), height = node.shape(0)[2],
                     width = node.shape(0)[3];
  std::array<double, 4> v{};
  for (std::size_t k = 0; k < 4; ++k)
    v[k] = rois.get_float(4 * r + static_cast<std::int64_t>(k)) * scale - (half ? 0.5 : 0.0);
  double w = v[2] - v[0], h = v[3] - v[1];
  if (!half) {
    w = std::max(w, 1.0);
    h = std::max(h, 1.0);
  }
  const double sample_rows = samples(ratio, h, rows), sample_columns = samples(ratio, w, columns);
  if (sample_rows * sample_columns * static_cast<double>(rows * columns) > kMaxTaps)
    return bad_operand("region {} is too large: {:.3g} x {:.3g}", r, w, h);
  const auto ny = static_cast<std::int64_t>(sample_rows),
             nx = static_cast<std::int64_t>(sample_columns);
  std::vector<Bin> bins;
  for (std::int64_t bin = 0; bin < rows * columns; ++bin) {
    Bin b;
    const double y0 = v[1] + h * static_cast<double>(bin / columns) / static_cast<double>(rows);
    const double x0 = v[0] + w * static_cast<double>(bin % columns) / static_cast<double>(columns);
    for (std::int64_t s = 0; s < ny * nx; ++s) {
      const double sy = (static_cast<double>(s / nx) + 0.5) / static_cast<double>(ny * rows);
      const double sx = (static_cast<double>(s % nx) + 0.5) / static_cast<double>(nx * columns);
      b.taps.push_back(bilinear_tap(y0 + h * sy, x0 + w * sx, height, width));
    }
    bins.push_back(std::move(b));
  }
  return bins;
}

double pool_bin(const HostTensor& x, std::int64_t plane, const Bin& bin, bool maximum) {
  double sum = 0, best = 0;
  bool first = true;
  for (const Tap& tap : bin.taps) {
    for (std::size_t k = 0; k < 4; ++k) {
      const double part = tap.weight[k] * x.get_float(plane + tap.at[k]);
      sum += part;
      best = first ? part : std::max(best, part);
      first = false;
    }
  }
  // The maximum is over weighted neighbours, as the operator's reference has it.
  if (maximum) return best;
  return sum / static_cast<double>(std::max<std::size_t>(1, bin.taps.size()));
}

Result<Tensors> evaluate_roi_align(const NodeView& node, const Inputs& in) {
  TESSERA_TRY(const Types types, infer_roi_align(node));
  const HostTensor& x = *in[0];
  const std::int64_t channels = x.shape()[1], plane = x.shape()[2] * x.shape()[3];
  const bool maximum = node.attrs.word("mode") == "max";
  HostTensor out(types[0].dtype, types[0].shape);
  std::int64_t at = 0;
  for (std::int64_t r = 0; r < in[1]->shape()[0]; ++r) {
    const std::int64_t image = in[2]->get_int(r);
    if (image < 0 || image >= x.shape()[0])
      return bad_operand("region {} of image {} in a batch of {}", r, image, x.shape()[0]);
    TESSERA_TRY(const std::vector<Bin> bins, region_bins(node, *in[1], r));
    for (std::int64_t c = 0; c < channels; ++c) {
      for (const Bin& bin : bins)
        out.set_float(at++, pool_bin(x, (image * channels + c) * plane, bin, maximum));
    }
  }
  return Tensors{out};
}

// roi_max {height, width, spatial_scale} x[N, C, H, W], rois[R, 5] of (image, x0, y0, x1, y1):
// the largest pixel of each bin, 0 for an empty one.
Result<Types> infer_roi_max(const NodeView& node) {
  TESSERA_DO(check_regions(node, 5));
  return single_type(node.dtype(0), {node.shape(1)[0], node.shape(0)[1],
                                     node.attrs.integer("height"), node.attrs.integer("width")});
}

struct Span {
  std::int64_t first, end;
};

// Pixels of bin `i` of `bins` over [lo, hi], clipped to the image.
Span bin_span(double lo, double hi, std::int64_t i, std::int64_t bins, std::int64_t size) {
  const double n = static_cast<double>(size);
  const double length = std::max(hi - lo + 1, 1.0) / static_cast<double>(bins);
  const auto clip = [&](double v) {
    return static_cast<std::int64_t>(v >= 0 ? std::min(v, n) : 0.0);
  };
  return {clip(std::floor(static_cast<double>(i) * length) + lo),
          clip(std::ceil(static_cast<double>(i + 1) * length) + lo)};
}

double span_max(const HostTensor& x, std::int64_t plane, Span ys, Span xs) {
  if (ys.first >= ys.end || xs.first >= xs.end) return 0;
  double best = -std::numeric_limits<double>::infinity();
  for (std::int64_t y = ys.first; y < ys.end; ++y) {
    for (std::int64_t i = xs.first; i < xs.end; ++i)
      best = std::max(best, x.get_float(plane + y * x.shape()[3] + i));
  }
  return best;
}

Result<Tensors> evaluate_roi_max(const NodeView& node, const Inputs& in) {
  TESSERA_TRY(const Types types, infer_roi_max(node));
  const HostTensor& x = *in[0];
  const Shape& out_shape = types[0].shape;
  const double scale = node.attrs.number("spatial_scale");
  HostTensor out(types[0].dtype, out_shape);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const std::int64_t column = i % out_shape[3], row = i / out_shape[3] % out_shape[2],
                       c = i / (out_shape[3] * out_shape[2]) % out_shape[1],
                       r = i / (out_shape[3] * out_shape[2] * out_shape[1]);
    const double image = in[1]->get_float(5 * r);
    if (!(image >= 0 && image < static_cast<double>(x.shape()[0])))
      return bad_operand("region {} of image {} in a batch of {}", r, image, x.shape()[0]);
    const auto corner = [&](std::int64_t k) {
      return std::round(in[1]->get_float(5 * r + k) * scale);
    };
    const std::int64_t plane =
        (static_cast<std::int64_t>(image) * x.shape()[1] + c) * x.shape()[2] * x.shape()[3];
    out.set_float(
        i, span_max(x, plane, bin_span(corner(2), corner(4), row, out_shape[2], x.shape()[2]),
                    bin_span(corner(1), corner(3), column, out_shape[3], x.shape()[3])));
  }
  return Tensors{out};
}

}  // namespace

std::vector<OpDef> detection_ops() {
  return {
      {"non_max_suppression", Fusion::kHost, infer_nms, nullptr, evaluate_nms},
      {"roi_align", Fusion::kHost, infer_roi_align, nullptr, evaluate_roi_align},
      {"roi_max", Fusion::kHost, infer_roi_max, nullptr, evaluate_roi_max},
  };
}

}  // namespace tessera::graph
