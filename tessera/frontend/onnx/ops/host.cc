// Operators that run on the host: sorting, searching, selecting boxes.
#include <algorithm>

#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/slicing.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

Result<Values> one(Result<ValueId> value) {
  if (!value.ok()) return value.error();
  return Values{*value};
}

Result<Values> best(Context& c, std::int64_t k) {
  TESSERA_TRY(const std::int64_t raw, c.integer("axis", -1));
  TESSERA_TRY(const std::int64_t axis, c.axis(raw, c.rank(0)));
  TESSERA_TRY(const std::int64_t largest, c.integer("largest", 1));
  return c.b.add_node("topk", {c.in(0)}, {{"axis", axis}, {"k", k}, {"largest", largest}});
}

Result<Values> import_topk_1(Context& c) {
  TESSERA_TRY(const std::int64_t k, c.integer("k"));
  return best(c, k);
}

Result<Values> import_topk(Context& c) {
  TESSERA_TRY(const auto k, c.constant_integers(1, "k"));
  if (k.size() != 1) return invalid("k has {} elements", k.size());
  return best(c, k[0]);
}

Result<Values> import_nonzero(Context& c) { return one(c.b.add("nonzero", {c.in(0)})); }

Result<Values> import_unique(Context& c) {
  TESSERA_TRY(const std::int64_t sorted, c.integer("sorted", 1));
  graph::Attrs attrs{{"sorted", sorted}};
  if (c.has_attribute("axis")) {
    TESSERA_TRY(const std::int64_t raw, c.integer("axis"));
    TESSERA_TRY(const std::int64_t axis, c.axis(raw, c.rank(0)));
    attrs.set("axis", axis);
  }
  return c.b.add_node("unique", {c.in(0)}, attrs);
}

// A number of NonMaxSuppression's optional inputs.
Result<double> limit(Context& c, std::size_t i, std::string_view what, double absent) {
  if (!c.has(i)) return absent;
  TESSERA_TRY(const HostTensor* value, c.constant(i, what));
  if (value->size() != 1) return invalid("{} has {} elements", what, value->size());
  return value->get_float(0);
}

Result<Values> import_nms(Context& c) {
  TESSERA_TRY(const double most, limit(c, 2, "max_output_boxes_per_class", 0));
  TESSERA_TRY(const double iou, limit(c, 3, "iou_threshold", 0));
  TESSERA_TRY(const double score, limit(c, 4, "score_threshold", 0));
  TESSERA_TRY(const std::int64_t center, c.integer("center_point_box", 0));
  graph::Attrs attrs{
      {"max_per_class", static_cast<std::int64_t>(most >= 1 ? std::min(most, 0x1p62) : 0.0)},
      {"iou_threshold", iou},
      {"center_point_box", center}};
  if (c.has(4)) attrs.set("score_threshold", score);
  return one(c.b.add("non_max_suppression", {c.in(0), c.in(1)}, attrs));
}

Result<Values> import_roi_align(Context& c) {
  TESSERA_TRY(const std::string mode, c.word("mode", "avg"));
  if (mode != "avg" && mode != "max") return invalid("mode '{}' is not avg or max", mode);
  TESSERA_TRY(const std::int64_t height, c.integer("output_height", 1));
  TESSERA_TRY(const std::int64_t width, c.integer("output_width", 1));
  TESSERA_TRY(const std::int64_t ratio, c.integer("sampling_ratio", 0));
  TESSERA_TRY(const double scale, c.number("spatial_scale", 1));
  TESSERA_TRY(const std::string points,
              c.word("coordinate_transformation_mode",
                     c.version < 16 ? "output_half_pixel" : "half_pixel"));
  if (points != "half_pixel" && points != "output_half_pixel")
    return invalid("coordinate_transformation_mode '{}'", points);
  return one(c.b.add("roi_align", {c.in(0), c.in(1), c.in(2)},
                     {{"height", height},
                      {"width", width},
                      {"sampling_ratio", ratio},
                      {"spatial_scale", scale},
                      {"mode", mode},
                      {"half_pixel", std::int64_t{points == "half_pixel"}}}));
}

Result<Values> import_max_roi_pool(Context& c) {
  TESSERA_TRY(const auto size, c.integers("pooled_shape"));
  if (size.size() != 2) return invalid("pooled_shape has {} elements", size.size());
  TESSERA_TRY(const double scale, c.number("spatial_scale", 1));
  return one(c.b.add("roi_max", {c.in(0), c.in(1)},
                     {{"height", size[0]}, {"width", size[1]}, {"spatial_scale", scale}}));
}

// Spatial sizes of the tensor that was pooled.
Result<Shape> unpooled_shape(Context& c) {
  const Shape x = c.shape(0);
  if (x.size() < 3 || c.shape(1) != x)
    return invalid("values {} and indices {}", to_text(x), to_text(c.shape(1)));
  const std::size_t rank = x.size() - 2;
  TESSERA_TRY(const auto kernel, c.integers("kernel_shape"));
  TESSERA_TRY(const auto strides, c.integers("strides", std::vector<std::int64_t>(rank, 1)));
  TESSERA_TRY(const auto pads, c.integers("pads", std::vector<std::int64_t>(2 * rank, 0)));
  if (kernel.size() != rank || strides.size() != rank || pads.size() != 2 * rank)
    return invalid("kernel_shape, strides and pads do not fit rank {}", rank);
  Shape shape = {x[0], x[1]};
  for (std::size_t d = 0; d < rank; ++d) {
    constexpr std::int64_t kLimit = std::int64_t{1} << 30;
    const auto fits = [](std::int64_t v) { return v >= 0 && v <= kLimit; };
    if (!fits(kernel[d]) || !fits(strides[d]) || !fits(pads[d]) || !fits(pads[rank + d]) ||
        !fits(x[2 + d]))
      return invalid("window {} with stride {}", kernel[d], strides[d]);
    shape.push_back((x[2 + d] - 1) * strides[d] - pads[d] - pads[rank + d] + kernel[d]);
  }
  return shape;
}

Result<Values> import_max_unpool(Context& c) {
  TESSERA_TRY(const Shape shape, unpooled_shape(c));
  TESSERA_TRY(const std::int64_t total, checked_elements(shape, c.dtype(0)));
  const std::int64_t count = elements(c.shape(0));
  TESSERA_TRY(const ValueId zeros,
              c.b.add("expand", {c.b.scalar(c.dtype(0), 0)}, {{"shape", Shape{total}}}));
  TESSERA_TRY(const ValueId values, c.b.reshape(c.in(0), {count}));
  TESSERA_TRY(const ValueId indices, c.b.reshape(c.in(1), {count}));
  TESSERA_TRY(const ValueId flat,
              c.b.add("scatter_elements", {zeros, indices, values},
                      {{"axis", std::int64_t{0}}, {"reduction", std::string("none")}}));
  TESSERA_TRY(const ValueId y, c.b.reshape(flat, shape));
  if (!c.has(2)) return Values{y};
  // Positions count in the tensor that the window implies; a larger one is padded at its end.
  TESSERA_TRY(const Shape wanted, c.constant_integers(2, "output_shape"));
  if (wanted.size() != shape.size()) return invalid("output_shape {}", to_text(wanted));
  std::vector<std::int64_t> before(shape.size(), 0), after;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (wanted[d] < 0) return invalid("output_shape {}", to_text(wanted));
    after.push_back(wanted[d] - shape[d]);
  }
  return one(pad(c.b, y, "constant", before, after));
}

}  // namespace

std::vector<OnnxOp> host_rows() {
  return {
      {"TopK", 1, 1, 1, import_topk_1},
      {"TopK", 10, 2, 2, import_topk},
      {"NonZero", 9, 1, 1, import_nonzero},
      {"Unique", 11, 1, 1, import_unique},
      {"NonMaxSuppression", 10, 2, 5, import_nms},
      {"RoiAlign", 10, 3, 3, import_roi_align},
      {"MaxRoiPool", 1, 2, 2, import_max_roi_pool},
      {"MaxUnpool", 9, 2, 3, import_max_unpool},
  };
}

}  // namespace tessera::onnx
