// Operators on images: Resize and Upsample, GridSample, AffineGrid, Col2Im.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/resize_table.h"
#include "tessera/frontend/onnx/ops/slicing.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;
using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;

Result<Values> one(Result<ValueId> value) {
  if (!value.ok()) return value.error();
  return Values{*value};
}

Result<std::vector<double>> constant_numbers(Context& c, std::size_t i, std::string_view what) {
  TESSERA_TRY(const HostTensor* value, c.constant(i, what));
  std::vector<double> list;
  for (std::int64_t k = 0; k < value->size(); ++k) list.push_back(value->get_float(k));
  return list;
}

Result<ResizeAxis> scaled_axis(std::int64_t in, double scale) {
  // In single precision, as the scale is stored: 30 * 0.33333334 must be 10.
  const double out =
      std::floor(static_cast<double>(static_cast<float>(in) * static_cast<float>(scale)));
  if (!(scale > 0) || out > static_cast<double>(kMaxSize)) return invalid("scale {}", scale);
  return ResizeAxis{.in = in, .out = static_cast<std::int64_t>(out), .scale = scale};
}

// A resize along one axis.
struct AxisPlan {
  std::size_t axis;
  ResizeAxis sizes;
  ResizeTable table;
};

HostTensor index_tensor(const ResizeTable& table) {
  const std::int64_t rows = static_cast<std::int64_t>(table.index.size()) / table.taps;
  HostTensor t(DType::kI64, {rows, table.taps});
  for (std::size_t i = 0; i < table.index.size(); ++i)
    t.set_int(static_cast<std::int64_t>(i), table.index[i]);
  return t;
}

HostTensor weight_tensor(const ResizeTable& table, DType dtype) {
  const std::int64_t rows = static_cast<std::int64_t>(table.weight.size()) / table.taps;
  HostTensor t(dtype, {rows, table.taps});
  for (std::size_t i = 0; i < table.weight.size(); ++i)
    t.set_float(static_cast<std::int64_t>(i), table.weight[i]);
  return t;
}

Result<ValueId> add_resize(graph::GraphBuilder& b, ValueId x, const std::vector<AxisPlan>& plans) {
  Values inputs = {x};
  Integers axes;
  for (const AxisPlan& plan : plans) {
    axes.push_back(static_cast<std::int64_t>(plan.axis));
    inputs.push_back(b.constant(index_tensor(plan.table)));
    inputs.push_back(plan.table.weight.empty() ? kNoValue
                                               : b.constant(weight_tensor(plan.table, b.dtype(x))));
  }
  return b.add("resize", inputs, {{"axes", axes}});
}

// Whether the table reads element i // factor, with `factor` a whole number.
bool repeats_elements(const AxisPlan& plan) {
  if (plan.sizes.out == 0 || plan.sizes.out % plan.sizes.in != 0) return false;
  const std::int64_t factor = plan.sizes.out / plan.sizes.in;
  for (std::size_t i = 0; i < plan.table.index.size(); ++i) {
    if (plan.table.index[i] != static_cast<std::int64_t>(i) / factor) return false;
  }
  return true;
}

// Whether the table reads elements start + i * step.
bool skips_elements(const AxisPlan& plan, AxisSlice& part) {
  const Integers& index = plan.table.index;
  if (index.empty()) return false;
  part = {index[0], index.size() > 1 ? index[1] - index[0] : 1, plan.sizes.out};
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] != part.start + static_cast<std::int64_t>(i) * part.step) return false;
  }
  return part.step > 0;
}

// Axes that only pick elements: by repeating, by a slice, or by their table.
Result<ValueId> pick_elements(graph::GraphBuilder& b, ValueId x,
                              const std::vector<AxisPlan>& plans) {
  const Shape shape = b.shape(x);
  std::vector<AxisSlice> cut = whole(shape);
  Integers factors(shape.size(), 1);
  std::vector<AxisPlan> others;
  for (const AxisPlan& plan : plans) {
    if (skips_elements(plan, cut[plan.axis])) continue;
    cut[plan.axis] = {0, 1, shape[plan.axis]};
    if (repeats_elements(plan)) {
      factors[plan.axis] = plan.sizes.out / plan.sizes.in;
    } else {
      others.push_back(plan);
    }
  }
  TESSERA_TRY(ValueId y, slice(b, x, cut));
  if (std::any_of(factors.begin(), factors.end(), [](std::int64_t f) { return f != 1; })) {
    TESSERA_TRY(y, b.add("upsample", {y}, {{"factors", factors}}));
  }
  if (others.empty()) return y;
  return add_resize(b, y, others);
}

// Axes that mix elements: few taps in one step, many axis by axis, shrinking ones first.
Result<ValueId> mix_elements(graph::GraphBuilder& b, ValueId x, std::vector<AxisPlan> plans) {
  const DType t = b.dtype(x);
  const DType wide = is_float(t) ? compute_type(t) : DType::kF32;
  TESSERA_TRY(ValueId y, b.cast(x, wide));
  const bool few = plans.size() <= 3 && std::all_of(plans.begin(), plans.end(), [](const auto& p) {
                     return p.table.taps <= 2;
                   });
  if (few) {
    TESSERA_TRY(y, add_resize(b, y, plans));
    return b.cast(y, t);
  }
  std::stable_sort(plans.begin(), plans.end(), [](const AxisPlan& p, const AxisPlan& q) {
    return static_cast<double>(p.sizes.out) * static_cast<double>(q.sizes.in) <
           static_cast<double>(q.sizes.out) * static_cast<double>(p.sizes.in);
  });
  for (const AxisPlan& plan : plans) {
    TESSERA_TRY(y, add_resize(b, y, {plan}));
  }
  return b.cast(y, t);
}

// Elements that the region of tf_crop_and_resize places outside the image become `value`.
Result<ValueId> replace_outside(graph::GraphBuilder& b, ValueId y,
                                const std::vector<AxisPlan>& plans, double value) {
  for (const AxisPlan& plan : plans) {
    const std::vector<bool>& outside = plan.table.outside;
    if (std::find(outside.begin(), outside.end(), true) == outside.end()) continue;
    Shape along(b.shape(y).size(), 1);
    along[plan.axis] = plan.sizes.out;
    HostTensor mask(DType::kBool, along);
    for (std::size_t i = 0; i < outside.size(); ++i)
      mask.set_int(static_cast<std::int64_t>(i), outside[i] ? 1 : 0);
    const ValueId chosen = b.constant(std::move(mask)), fill = b.scalar(b.dtype(y), value);
    TESSERA_TRY(y, b.add("where", {chosen, fill, y}));
  }
  return y;
}

Result<ValueId> resize(Context& c, const ResizeMode& mode, const std::vector<ResizeAxis>& axes,
                       double extrapolation) {
  std::vector<AxisPlan> picks, mixes, all;
  for (std::size_t d = 0; d < axes.size(); ++d) {
    const ResizeAxis& axis = axes[d];
    if (axis.in == 0 && axis.out == 0) continue;
    if (axis.in == 0) return invalid("an empty axis cannot be resized to {}", axis.out);
    // The whole of an axis that keeps its size; only a region can move it.
    if (axis.in == axis.out && axis.scale == 1 && mode.coordinates != "tf_crop_and_resize")
      continue;
    TESSERA_TRY(ResizeTable table, resize_table(mode, axis));
    all.push_back({d, axis, table});
    (table.weight.empty() ? picks : mixes).push_back({d, axis, std::move(table)});
  }
  TESSERA_TRY(ValueId y, pick_elements(c.b, c.in(0), picks));
  if (!mixes.empty()) {
    TESSERA_TRY(y, mix_elements(c.b, y, std::move(mixes)));
  }
  return replace_outside(c.b, y, all, extrapolation);
}

// Upsample and Resize-10: scales of all axes, positions x / scale.
Result<Values> resize_by(Context& c, const std::vector<double>& scales) {
  TESSERA_TRY(const std::string word, c.word("mode", "nearest"));
  const Shape x = c.shape(0);
  if (scales.size() != x.size()) return invalid("{} scales for rank {}", scales.size(), x.size());
  ResizeMode mode;
  mode.mode = word == "bilinear" ? "linear" : word;
  mode.coordinates = "asymmetric";
  mode.nearest = "floor";
  std::vector<ResizeAxis> axes;
  for (std::size_t d = 0; d < x.size(); ++d) {
    TESSERA_TRY(const ResizeAxis axis, scaled_axis(x[d], scales[d]));
    axes.push_back(axis);
  }
  return one(resize(c, mode, axes, 0));
}

Result<Values> import_upsample_7(Context& c) {
  TESSERA_TRY(const auto scales, c.numbers("scales"));
  return resize_by(c, scales);
}

Result<Values> import_upsample(Context& c) {
  TESSERA_TRY(const auto scales, constant_numbers(c, 1, "scales"));
  return resize_by(c, scales);
}

Result<ResizeMode> read_mode(Context& c) {
  ResizeMode mode;
  TESSERA_TRY(mode.mode, c.word("mode", "nearest"));
  TESSERA_TRY(mode.coordinates, c.word("coordinate_transformation_mode", "half_pixel"));
  TESSERA_TRY(mode.nearest, c.word("nearest_mode", "round_prefer_floor"));
  TESSERA_TRY(mode.cubic_a, c.number("cubic_coeff_a", -0.75));
  TESSERA_TRY(const std::int64_t exclude, c.integer("exclude_outside", 0));
  TESSERA_TRY(const std::int64_t antialias, c.integer("antialias", 0));
  mode.exclude_outside = exclude != 0;
  mode.antialias = antialias != 0;
  return mode;
}

// Sizes and scales of the axes when sizes are wanted, as keep_aspect_ratio_policy says.
Result<void> apply_sizes(Context& c, const Integers& sizes, const Integers& axes,
                         std::vector<ResizeAxis>& plan) {
  TESSERA_TRY(const std::string policy, c.word("keep_aspect_ratio_policy", "stretch"));
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    return invalid("keep_aspect_ratio_policy '{}'", policy);
  if (sizes.size() != axes.size())
    return invalid("{} sizes for {} axes", sizes.size(), axes.size());
  double common = 0;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    ResizeAxis& axis = plan[static_cast<std::size_t>(axes[k])];
    if (sizes[k] < 0 || sizes[k] > kMaxSize) return invalid("size {}", sizes[k]);
    axis.out = sizes[k];
    if (axis.in == 0) continue;
    axis.scale = static_cast<double>(axis.out) / static_cast<double>(axis.in);
    if (k == 0 || (policy == "not_larger" ? axis.scale < common : axis.scale > common))
      common = axis.scale;
  }
  if (policy == "stretch") return {};
  for (const std::int64_t a : axes) {
    ResizeAxis& axis = plan[static_cast<std::size_t>(a)];
    axis.scale = common;
    const double size = std::floor(common * static_cast<double>(axis.in) + 0.5);
    if (size > static_cast<double>(kMaxSize)) return invalid("size {}", size);
    axis.out = static_cast<std::int64_t>(size);
  }
  return {};
}

Result<void> apply_scales(const std::vector<double>& scales, const Integers& axes,
                          std::vector<ResizeAxis>& plan) {
  if (scales.size() != axes.size())
    return invalid("{} scales for {} axes", scales.size(), axes.size());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    ResizeAxis& axis = plan[static_cast<std::size_t>(axes[k])];
    TESSERA_TRY(axis, scaled_axis(axis.in, scales[k]));
  }
  return {};
}

Result<void> apply_region(Context& c, const Integers& axes, std::vector<ResizeAxis>& plan) {
  TESSERA_TRY(const auto roi, constant_numbers(c, 1, "roi"));
  if (roi.size() != 2 * axes.size())
    return invalid("roi of {} numbers for {} axes", roi.size(), axes.size());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    ResizeAxis& axis = plan[static_cast<std::size_t>(axes[k])];
    axis.first = roi[k];
    axis.last = roi[axes.size() + k];
  }
  return {};
}

bool has_elements(Context& c, std::size_t i) { return c.has(i) && elements(c.shape(i)) > 0; }

Result<Values> import_resize(Context& c) {
  TESSERA_TRY(const ResizeMode mode, read_mode(c));
  TESSERA_TRY(const double extrapolation, c.number("extrapolation_value", 0));
  const Shape x = c.shape(0);
  Integers all(x.size()), axes;
  std::iota(all.begin(), all.end(), 0);
  TESSERA_TRY(const Integers raw, c.integers("axes", all));
  for (const std::int64_t a : raw) {
    TESSERA_TRY(const std::int64_t axis, c.axis(a, c.rank(0)));
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      return invalid("axis {} is given twice", axis);
    axes.push_back(axis);
  }
  std::vector<ResizeAxis> plan;
  for (const std::int64_t n : x) plan.push_back({.in = n, .out = n});
  if (has_elements(c, 3)) {
    TESSERA_TRY(const Integers sizes, c.constant_integers(3, "sizes"));
    TESSERA_DO(apply_sizes(c, sizes, axes, plan));
  } else if (has_elements(c, 2)) {
    TESSERA_TRY(const auto scales, constant_numbers(c, 2, "scales"));
    TESSERA_DO(apply_scales(scales, axes, plan));
  } else if (!axes.empty()) {
    return invalid("neither scales nor sizes are given");
  }
  if (mode.coordinates == "tf_crop_and_resize") TESSERA_DO(apply_region(c, axes, plan));
  return one(resize(c, mode, plan, extrapolation));
}

Result<Values> import_grid_sample(Context& c) {
  TESSERA_TRY(std::string mode, c.word("mode", c.version < 20 ? "bilinear" : "linear"));
  TESSERA_TRY(const std::string padding, c.word("padding_mode", "zeros"));
  TESSERA_TRY(const std::int64_t align, c.integer("align_corners", 0));
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  return one(c.b.add("grid_sample", {c.in(0), c.in(1)},
                     {{"mode", mode}, {"padding", padding}, {"align_corners", align}}));
}

// Points of an image of these sizes as rows (x, y, 1) or (x, y, z, 1), each in [-1, 1].
HostTensor base_grid(const Shape& sizes, DType dtype, bool align) {
  const std::int64_t rank = static_cast<std::int64_t>(sizes.size());
  HostTensor grid(dtype, {elements(sizes), rank + 1});
  for (std::int64_t p = 0; p < elements(sizes); ++p) {
    std::int64_t rest = p;
    for (std::int64_t k = 0; k < rank; ++k) {  // the last axis comes first
      const std::int64_t n = sizes[static_cast<std::size_t>(rank - 1 - k)];
      const double i = static_cast<double>(rest % n), size = static_cast<double>(n);
      rest /= n;
      const double aligned = n == 1 ? 0 : 2 * i / (size - 1) - 1;
      grid.set_float(p * (rank + 1) + k, align ? aligned : (2 * i + 1) / size - 1);
    }
    grid.set_float(p * (rank + 1) + rank, 1);
  }
  return grid;
}

Result<Values> import_affine_grid(Context& c) {
  TESSERA_TRY(const Shape size, c.constant_integers(1, "size"));
  TESSERA_TRY(const std::int64_t align, c.integer("align_corners", 0));
  const std::int64_t rank = static_cast<std::int64_t>(size.size()) - 2;
  if ((rank != 2 && rank != 3) || c.shape(0) != Shape{size[0], rank, rank + 1} ||
      !is_float(c.dtype(0)))
    return invalid("theta {} for size {}", to_text(c.shape(0)), to_text(size));
  Shape shape(size.begin() + 2, size.end());
  const DType t = c.dtype(0), wide = compute_type(t);
  TESSERA_TRY(const std::int64_t points, checked_elements(shape, DType::kF64));
  if (points > kMaxSize) return invalid("size {}", to_text(size));
  const ValueId grid = c.b.constant(base_grid(shape, wide, align != 0));
  TESSERA_TRY(const ValueId theta, c.b.cast(c.in(0), wide));
  TESSERA_TRY(const ValueId product, contract(c.b, grid, "pj", theta, "nij", "npi"));
  shape.insert(shape.begin(), size[0]);
  shape.push_back(rank);
  TESSERA_TRY(const ValueId y, c.b.reshape(product, shape));
  return one(c.b.cast(y, t));
}

Result<Values> import_col2im(Context& c) {
  TESSERA_TRY(const Integers image, c.constant_integers(1, "image_shape"));
  TESSERA_TRY(const Integers block, c.constant_integers(2, "block_shape"));
  const std::size_t rank = image.size();
  TESSERA_TRY(const Integers strides, c.integers("strides", Integers(rank, 1)));
  TESSERA_TRY(const Integers dilations, c.integers("dilations", Integers(rank, 1)));
  TESSERA_TRY(const Integers pads, c.integers("pads", Integers(2 * rank, 0)));
  if (block.size() != rank || strides.size() != rank || dilations.size() != rank ||
      pads.size() != 2 * rank)
    return invalid("image_shape, block_shape, strides, dilations and pads do not fit");
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
  return one(c.b.add("col2im", {c.in(0)},
                     {{"image", image},
                      {"block", block},
                      {"strides", strides},
                      {"dilations", dilations},
                      {"before", Integers(pads.begin(), middle)},
                      {"after", Integers(middle, pads.end())}}));
}

}  // namespace

std::vector<OnnxOp> vision_rows() {
  return {
      {"Upsample", 7, 1, 1, import_upsample_7},     {"Upsample", 9, 2, 2, import_upsample},
      {"Resize", 10, 2, 2, import_upsample},        {"Resize", 11, 1, 4, import_resize},
      {"GridSample", 16, 2, 2, import_grid_sample}, {"AffineGrid", 20, 2, 2, import_affine_grid},
      {"Col2Im", 18, 3, 3, import_col2im},
  };
}

}  // namespace tessera::onnx
