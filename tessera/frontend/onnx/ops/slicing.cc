#include "tessera/frontend/onnx/ops/slicing.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;
using Integers = std::vector<std::int64_t>;

// Slice's rules: negative bounds count from the end, then everything is clamped.
AxisSlice clamped(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t n) {
  if (n == 0) return {0, 1, 0};
  step = std::max(step, -INT64_MAX);
  const auto from_end = [n](std::int64_t v) { return v < 0 ? v + n : v; };
  if (step > 0) {
    const std::int64_t first = std::clamp<std::int64_t>(from_end(start), 0, n),
                       last = std::clamp<std::int64_t>(from_end(end), 0, n);
    return first < last ? AxisSlice{first, step, (last - first - 1) / step + 1}
                        : AxisSlice{0, 1, 0};
  }
  const std::int64_t first = std::clamp<std::int64_t>(from_end(start), 0, n - 1),
                     last = std::clamp<std::int64_t>(from_end(end), -1, n - 1);
  return first > last ? AxisSlice{first, step, (first - last - 1) / -step + 1} : AxisSlice{0, 1, 0};
}

Result<Values> sliced(Context& c, const Integers& starts, const Integers& ends,
                      const std::optional<Integers>& axes, const std::optional<Integers>& steps) {
  const Shape x = c.shape(0);
  const std::size_t count = starts.size();
  if (ends.size() != count || (axes && axes->size() != count) ||
      (steps && steps->size() != count) || (!axes && count > x.size()))
    return invalid("starts, ends, axes and steps do not have one length");
  std::vector<AxisSlice> parts = whole(x);
  std::vector<bool> cut(x.size(), false);
  for (std::size_t k = 0; k < count; ++k) {
    TESSERA_TRY(const std::int64_t axis,
                c.axis(axes ? (*axes)[k] : static_cast<std::int64_t>(k), c.rank(0)));
    const std::size_t d = static_cast<std::size_t>(axis);
    const std::int64_t step = steps ? (*steps)[k] : 1;
    if (step == 0) return invalid("a step is zero");
    if (cut[d]) return invalid("axis {} is sliced twice", d);
    cut[d] = true;
    parts[d] = clamped(starts[k], ends[k], step, x[d]);
  }
  TESSERA_TRY(const ValueId y, slice(c.b, c.in(0), parts));
  return Values{y};
}

Result<Values> import_slice_1(Context& c) {
  TESSERA_TRY(const Integers starts, c.integers("starts"));
  TESSERA_TRY(const Integers ends, c.integers("ends"));
  std::optional<Integers> axes;
  if (c.has_attribute("axes")) {
    TESSERA_TRY(axes, c.integers("axes"));
  }
  return sliced(c, starts, ends, axes, {});
}

Result<Values> import_slice(Context& c) {
  TESSERA_TRY(const Integers starts, c.constant_integers(1, "starts"));
  TESSERA_TRY(const Integers ends, c.constant_integers(2, "ends"));
  std::optional<Integers> axes, steps;
  if (c.has(3)) {
    TESSERA_TRY(axes, c.constant_integers(3, "axes"));
  }
  if (c.has(4)) {
    TESSERA_TRY(steps, c.constant_integers(4, "steps"));
  }
  return sliced(c, starts, ends, axes, steps);
}

// Sizes of the parts of Split, in whichever way this version gives them.
Result<Integers> part_sizes(Context& c, std::int64_t n) {
  if (c.has_attribute("split") && c.version < 13) return c.integers("split");
  if (c.has(1)) return c.constant_integers(1, "sizes of the parts");
  const std::int64_t outputs = static_cast<std::int64_t>(c.node.outputs.size());
  TESSERA_TRY(const std::int64_t count, c.integer("num_outputs", outputs));
  if (count < 1 || count != outputs) return invalid("{} parts for {} outputs", count, outputs);
  if (c.version < 18 && n % count != 0) return invalid("{} elements in {} equal parts", n, count);
  const std::int64_t size = (n + count - 1) / count;
  Integers sizes;
  for (std::int64_t k = 0; k < count; ++k)
    sizes.push_back(std::clamp<std::int64_t>(n - k * size, 0, size));
  return sizes;
}

Result<Values> import_split(Context& c) {
  TESSERA_TRY(const std::int64_t raw, c.integer("axis", 0));
  TESSERA_TRY(const std::int64_t axis, c.axis(raw, c.rank(0)));
  const std::size_t d = static_cast<std::size_t>(axis);
  const Shape x = c.shape(0);
  TESSERA_TRY(const Integers sizes, part_sizes(c, x[d]));
  if (sizes.size() < c.node.outputs.size())
    return invalid("{} parts for {} outputs", sizes.size(), c.node.outputs.size());
  Values parts;
  std::int64_t at = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] < 0 || sizes[k] > x[d] - at)
      return invalid("parts exceed axis {} of size {}", d, x[d]);
    std::vector<AxisSlice> cut = whole(x);
    cut[d] = {sizes[k] == 0 ? 0 : at, 1, sizes[k]};
    at += sizes[k];
    ValueId part = kNoValue;
    if (c.wants(k)) {
      TESSERA_TRY(part, slice(c.b, c.in(0), cut));
    }
    if (k < c.node.outputs.size()) parts.push_back(part);
  }
  if (at != x[d]) return invalid("parts cover {} of {} elements", at, x[d]);
  return parts;
}

// Pads of all axes from those of `axes`: first all of before, then all of after.
Result<Values> padded(Context& c, const Integers& pads, const Integers& axes, ValueId value) {
  TESSERA_TRY(const std::string mode, c.word("mode", "constant"));
  if (pads.size() != 2 * axes.size())
    return invalid("{} pads for {} axes", pads.size(), axes.size());
  Integers before(c.shape(0).size(), 0), after = before;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    TESSERA_TRY(const std::int64_t axis, c.axis(axes[k], c.rank(0)));
    before[static_cast<std::size_t>(axis)] = pads[k];
    after[static_cast<std::size_t>(axis)] = pads[axes.size() + k];
  }
  TESSERA_TRY(const ValueId y, pad(c.b, c.in(0), mode, before, after, value));
  return Values{y};
}

Integers all_axes(Context& c) {
  Integers axes(c.shape(0).size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Result<Values> import_pad_1(Context& c) {
  TESSERA_TRY(const Integers pads, c.integers(c.version < 2 ? "paddings" : "pads"));
  TESSERA_TRY(const double value, c.number("value", 0));
  return padded(c, pads, all_axes(c), value == 0 ? kNoValue : c.b.scalar(c.dtype(0), value));
}

Result<Values> import_pad(Context& c) {
  TESSERA_TRY(const Integers pads, c.constant_integers(1, "pads"));
  Integers axes = all_axes(c);
  if (c.has(3)) {
    TESSERA_TRY(axes, c.constant_integers(3, "axes"));
  }
  ValueId value = kNoValue;
  if (c.has(2)) {
    if (elements(c.shape(2)) != 1)
      return invalid("the value to pad with has shape {}", to_text(c.shape(2)));
    TESSERA_TRY(value, c.b.reshape(c.in(2), {}));
    const HostTensor* known = c.b.constant_of(value);
    const bool is_zero =
        known && (is_float(known->dtype()) ? known->get_float(0) == 0 : known->get_int(0) == 0);
    if (is_zero) value = kNoValue;
  }
  return padded(c, pads, axes, value);
}

Result<Values> import_center_crop_pad(Context& c) {
  TESSERA_TRY(const Shape wanted, c.constant_integers(1, "shape"));
  TESSERA_TRY(const Integers axes, c.integers("axes", all_axes(c)));
  if (wanted.size() != axes.size())
    return invalid("{} sizes for {} axes", wanted.size(), axes.size());
  const Shape x = c.shape(0);
  Integers before(x.size(), 0), after = before;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    TESSERA_TRY(const std::int64_t axis, c.axis(axes[k], c.rank(0)));
    const std::size_t d = static_cast<std::size_t>(axis);
    if (wanted[k] < 0) return invalid("size {}", wanted[k]);
    const std::int64_t grow = wanted[k] - x[d];
    before[d] = grow >= 0 ? grow / 2 : -(-grow / 2);
    after[d] = grow - before[d];
  }
  TESSERA_TRY(const ValueId y, pad(c.b, c.in(0), "constant", before, after));
  return Values{y};
}

// Positions first + k * step for all k, with every position in [0, n); or nothing.
std::optional<AxisSlice> progression(const HostTensor& indices, std::int64_t n) {
  const auto at = [&](std::int64_t i) {
    const std::int64_t v = indices.get_int(i);
    return v < 0 ? v + n : v;
  };
  const std::int64_t count = indices.size();
  if (count == 0) return std::nullopt;
  const AxisSlice part{at(0), count > 1 ? at(1) - at(0) : 1, count};
  if (part.step == 0) return std::nullopt;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t v = at(i);
    if (v < 0 || v >= n || v != part.start + i * part.step) return std::nullopt;
  }
  return part;
}

}  // namespace

std::vector<AxisSlice> whole(const Shape& x) {
  std::vector<AxisSlice> parts;
  for (const std::int64_t n : x) parts.push_back({0, 1, n});
  return parts;
}

Result<ValueId> slice(graph::GraphBuilder& b, ValueId x, const std::vector<AxisSlice>& parts) {
  Integers starts, steps, sizes;
  const Shape shape = b.shape(x);
  bool cuts = false;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    starts.push_back(parts[d].start);
    steps.push_back(parts[d].size > 1 ? parts[d].step : 1);
    sizes.push_back(parts[d].size);
    cuts = cuts || sizes[d] != shape[d] || steps[d] != 1;
  }
  if (!cuts) return x;
  return b.add("slice", {x}, {{"starts", starts}, {"steps", steps}, {"sizes", sizes}});
}

Result<ValueId> pad(graph::GraphBuilder& b, ValueId x, const std::string& mode,
                    const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after,
                    ValueId value) {
  const Shape shape = b.shape(x);
  std::vector<AxisSlice> kept = whole(shape);
  Integers grow_before = before, grow_after = after;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t cut_before = before[d] < 0 ? std::max(before[d], -INT64_MAX) : 0,
                       cut_after = after[d] < 0 ? std::max(after[d], -INT64_MAX) : 0;
    if (-cut_before > shape[d] || -cut_after > shape[d] + cut_before)
      return invalid("pads {} and {} remove more than the {} elements of axis {}", before[d],
                     after[d], shape[d], d);
    const std::int64_t size = shape[d] + cut_before + cut_after;
    kept[d] = {size == 0 ? 0 : -cut_before, 1, size};
    grow_before[d] -= cut_before;
    grow_after[d] -= cut_after;
  }
  TESSERA_TRY(const ValueId part, slice(b, x, kept));
  const auto is_zero = [](std::int64_t v) { return v == 0; };
  if (std::all_of(grow_before.begin(), grow_before.end(), is_zero) &&
      std::all_of(grow_after.begin(), grow_after.end(), is_zero))
    return part;
  Values inputs = {part};
  if (value != kNoValue && mode == "constant") inputs.push_back(value);
  return b.add("pad", inputs, {{"mode", mode}, {"before", grow_before}, {"after", grow_after}});
}

Result<ValueId> gather(graph::GraphBuilder& b, ValueId x, std::int64_t axis, ValueId indices) {
  const std::size_t d = static_cast<std::size_t>(axis);
  const Shape shape = b.shape(x);
  const HostTensor* known = b.constant_of(indices);
  const auto part = known ? progression(*known, shape[d]) : std::nullopt;
  if (!part) return b.add("gather", {x, indices}, {{"axis", axis}});
  std::vector<AxisSlice> cut = whole(shape);
  cut[d] = *part;
  Shape result(shape.begin(), shape.begin() + axis);
  const Shape added = b.shape(indices);
  result.insert(result.end(), added.begin(), added.end());
  result.insert(result.end(), shape.begin() + axis + 1, shape.end());
  TESSERA_TRY(const ValueId y, slice(b, x, cut));
  return b.reshape(y, result);
}

std::vector<OnnxOp> slicing_rows() {
  return {
      {"CenterCropPad", 18, 2, 2, import_center_crop_pad},
      {"Pad", 1, 1, 1, import_pad_1},
      {"Pad", 11, 2, 4, import_pad},
      {"Slice", 1, 1, 1, import_slice_1, "", false, Widened::kMoved},
      {"Slice", 10, 3, 5, import_slice, "", false, Widened::kMoved},
      {"Split", 1, 1, 2, import_split, "", false, Widened::kMoved},
  };
}

}  // namespace tessera::onnx
