// Operators that read or write at positions given by a tensor, and masks made of positions.
#include <algorithm>
#include <cstring>

#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/slicing.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

// Constant positions are scattered by a gather with a table of this many entries at most.
constexpr std::int64_t kMaxTable = std::int64_t{1} << 20;

Result<std::int64_t> axis_attribute(Context& c, std::int64_t absent) {
  TESSERA_TRY(const std::int64_t raw, c.integer("axis", absent));
  return c.axis(raw, c.rank(0));
}

Result<Values> one(Result<ValueId> value) {
  if (!value.ok()) return value.error();
  return Values{*value};
}

Result<Values> import_gather(Context& c) {
  TESSERA_TRY(const std::int64_t axis, axis_attribute(c, 0));
  return one(gather(c.b, c.in(0), axis, c.in(1)));
}

Result<Values> import_gather_elements(Context& c) {
  TESSERA_TRY(const std::int64_t axis, axis_attribute(c, 0));
  return one(c.b.add("gather_elements", {c.in(0), c.in(1)}, {{"axis", axis}}));
}

Result<Values> import_gather_nd(Context& c) {
  TESSERA_TRY(const std::int64_t batch, c.integer("batch_dims", 0));
  return one(c.b.add("gather_nd", {c.in(0), c.in(1)}, {{"batch_dims", batch}}));
}

// Rows `to` of x[rows, run] replaced by the rows of updates; later ones win.
Result<ValueId> replace_rows(graph::GraphBuilder& b, ValueId x, ValueId updates, std::int64_t rows,
                             std::int64_t run, const std::vector<std::int64_t>& to) {
  const Shape shape = b.shape(x);
  const std::int64_t count = static_cast<std::int64_t>(to.size());
  TESSERA_TRY(const ValueId old_rows, b.reshape(x, {rows, run}));
  TESSERA_TRY(const ValueId new_rows, b.reshape(updates, {count, run}));
  bool dense = true;
  for (std::int64_t k = 0; k < count && dense; ++k)
    dense = to[static_cast<std::size_t>(k)] == to[0] + k;
  ValueId joined = kNoValue;
  if (dense) {
    Values parts;
    if (to[0] > 0) {
      TESSERA_TRY(const ValueId head, slice(b, old_rows, {{0, 1, to[0]}, {0, 1, run}}));
      parts.push_back(head);
    }
    parts.push_back(new_rows);
    if (const std::int64_t end = to[0] + count; end < rows) {
      TESSERA_TRY(const ValueId tail, slice(b, old_rows, {{end, 1, rows - end}, {0, 1, run}}));
      parts.push_back(tail);
    }
    joined = parts[0];
    if (parts.size() > 1) {
      TESSERA_TRY(joined, b.add("concat", parts, {{"axis", std::int64_t{0}}}));
    }
  } else {
    std::vector<std::int64_t> table(static_cast<std::size_t>(rows));
    for (std::size_t r = 0; r < table.size(); ++r) table[r] = static_cast<std::int64_t>(r);
    for (std::int64_t k = 0; k < count; ++k)
      table[static_cast<std::size_t>(to[static_cast<std::size_t>(k)])] = rows + k;
    TESSERA_TRY(const ValueId both,
                b.add("concat", {old_rows, new_rows}, {{"axis", std::int64_t{0}}}));
    TESSERA_TRY(joined, gather(b, both, 0, b.integers(table)));
  }
  return b.reshape(joined, shape);
}

// Whether a scatter writes plain values at known positions of data that is not known.
bool has_known_targets(Context& c, const std::string& reduction) {
  const bool folds = c.b.constant_of(c.in(0)) && c.b.constant_of(c.in(2));
  return reduction == "none" && c.b.constant_of(c.in(1)) && !folds && elements(c.shape(0)) > 0 &&
         elements(c.shape(2)) > 0;
}

Result<Values> import_scatter_elements(Context& c) {
  TESSERA_TRY(const std::int64_t axis, axis_attribute(c, 0));
  TESSERA_TRY(const std::string reduction, c.word("reduction", "none"));
  const Shape x = c.shape(0), shape = c.shape(1);
  const bool fits = c.shape(2) == shape && shape.size() == x.size();
  if (!fits || !has_known_targets(c, reduction) || elements(x) > kMaxTable) {
    return one(c.b.add("scatter_elements", {c.in(0), c.in(1), c.in(2)},
                       {{"axis", axis}, {"reduction", reduction}}));
  }
  const HostTensor indices = *c.b.constant_of(c.in(1));
  std::vector<std::int64_t> to;
  for (std::int64_t i = 0; i < indices.size(); ++i) {
    std::int64_t at = 0, rest = i, stride = 1;
    for (std::size_t d = x.size(); d-- > 0; stride *= x[d]) {
      std::int64_t position = rest % shape[d];
      rest /= shape[d];
      if (d == static_cast<std::size_t>(axis)) {
        position = indices.get_int(i);
        if (position < 0) position += x[d];
      }
      if (position < 0 || position >= x[d])
        return invalid("index {} is outside axis {} of size {}", position, d, x[d]);
      at += position * stride;
    }
    to.push_back(at);
  }
  return one(replace_rows(c.b, c.in(0), c.in(2), elements(x), 1, to));
}

Result<Values> import_scatter_nd(Context& c) {
  TESSERA_TRY(const std::string reduction, c.word("reduction", "none"));
  const Shape x = c.shape(0), shape = c.shape(1);
  const bool fits = !shape.empty() && shape.back() >= 0 && shape.back() <= c.rank(0);
  const std::size_t depth = fits ? static_cast<std::size_t>(shape.back()) : 0;
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(depth);
  const std::int64_t rows = elements(Shape(x.begin(), middle));
  Shape expected(shape.begin(), shape.empty() ? shape.end() : shape.end() - 1);
  expected.insert(expected.end(), middle, x.end());
  if (!fits || !has_known_targets(c, reduction) || rows > kMaxTable || c.shape(2) != expected) {
    return one(c.b.add("scatter_nd", {c.in(0), c.in(1), c.in(2)}, {{"reduction", reduction}}));
  }
  const HostTensor indices = *c.b.constant_of(c.in(1));
  std::vector<std::int64_t> to(
      static_cast<std::size_t>(elements(Shape(shape.begin(), shape.end() - 1))), 0);
  for (std::size_t t = 0; t < to.size(); ++t) {
    for (std::size_t k = 0; k < depth; ++k) {
      std::int64_t position = indices.get_int(static_cast<std::int64_t>(t * depth + k));
      if (position < 0) position += x[k];
      if (position < 0 || position >= x[k])
        return invalid("index {} is outside axis {} of size {}", position, k, x[k]);
      to[t] = to[t] * x[k] + position;
    }
  }
  return one(replace_rows(c.b, c.in(0), c.in(2), rows, elements(Shape(middle, x.end())), to));
}

// One number from an input that must be known.
Result<std::int64_t> constant_number(Context& c, std::size_t i, std::string_view what) {
  TESSERA_TRY(const HostTensor* value, c.constant(i, what));
  if (value->size() != 1) return invalid("{} has {} elements", what, value->size());
  if (!is_float(value->dtype())) return value->get_int(0);
  const double v = value->get_float(0);
  if (!(v > -0x1p62 && v < 0x1p62)) return invalid("{} is {}", what, v);
  return static_cast<std::int64_t>(v);
}

Result<Values> import_one_hot(Context& c) {
  TESSERA_TRY(const std::int64_t depth, constant_number(c, 1, "depth"));
  if (depth < 1 || depth > INT32_MAX) return invalid("depth {}", depth);
  TESSERA_TRY(const std::int64_t raw, c.integer("axis", -1));
  TESSERA_TRY(const std::int64_t axis, c.axis(raw, c.rank(0) + 1));
  if (elements(c.shape(2)) != 2) return invalid("values are {}, not 2", to_text(c.shape(2)));
  Formula f(c);
  const Term values = f.reshape(f.in(2), {2});
  const auto value = [&](std::int64_t k) {
    const std::vector<std::int64_t> start = {k}, unit = {1};
    return f.reshape(f.op("slice", {values}, {{"starts", start}, {"steps", unit}, {"sizes", unit}}),
                     {});
  };
  const DType t = c.dtype(0) == DType::kI32 ? DType::kI32 : DType::kI64;
  Shape shape = c.shape(0), along(shape.size() + 1, 1);
  shape.insert(shape.begin() + axis, 1);
  along[static_cast<std::size_t>(axis)] = depth;
  HostTensor positions(t, along);
  for (std::int64_t i = 0; i < depth; ++i) positions.set_int(i, i);
  Term indices = f.reshape(f.cast(f.in(0), t), shape);
  // Before opset 11 negative positions were outside.
  if (c.version >= 11)
    indices = where(call("lt", indices, 0), indices + static_cast<double>(depth), indices);
  return f.result({where(call("eq", indices, f.constant(positions)), value(1), value(0))});
}

Result<Values> import_trilu(Context& c) {
  TESSERA_TRY(const std::int64_t upper, c.integer("upper", 1));
  std::int64_t k = 0;
  if (c.has(1)) {
    TESSERA_TRY(k, constant_number(c, 1, "k"));
  }
  return one(c.b.add("trilu", {c.in(0)}, {{"k", k}, {"upper", std::int64_t{upper != 0}}}));
}

Result<Values> import_cumulate(Context& c) {
  TESSERA_TRY(const std::int64_t raw, constant_number(c, 1, "axis"));
  TESSERA_TRY(const std::int64_t exclusive, c.integer("exclusive", 0));
  TESSERA_TRY(const std::int64_t reverse, c.integer("reverse", 0));
  TESSERA_TRY(const std::int64_t axis, c.axis(raw, c.rank(0)));
  return one(c.b.add("cumulate", {c.in(0)},
                     {{"kind", std::string(c.node.op_type == "CumProd" ? "prod" : "sum")},
                      {"axis", axis},
                      {"exclusive", std::int64_t{exclusive != 0}},
                      {"reverse", std::int64_t{reverse != 0}}}));
}

Result<Values> import_reverse_sequence(Context& c) {
  TESSERA_TRY(const std::int64_t raw_batch, c.integer("batch_axis", 1));
  TESSERA_TRY(const std::int64_t raw_time, c.integer("time_axis", 0));
  TESSERA_TRY(const std::int64_t batch, c.axis(raw_batch, c.rank(0)));
  TESSERA_TRY(const std::int64_t time, c.axis(raw_time, c.rank(0)));
  return one(c.b.add("reverse_sequence", {c.in(0), c.in(1)},
                     {{"batch_axis", batch}, {"time_axis", time}}));
}

Result<Values> import_compress(Context& c) {
  ValueId x = c.in(0);
  std::int64_t axis = 0;
  if (c.has_attribute("axis")) {
    TESSERA_TRY(axis, axis_attribute(c, 0));
  } else {
    TESSERA_TRY(x, c.b.reshape(x, {elements(c.shape(0))}));
  }
  TESSERA_TRY(const HostTensor* condition, c.constant(1, "condition"));
  if (condition->shape().size() != 1) return invalid("the condition is not a vector");
  const std::int64_t n = c.b.shape(x)[static_cast<std::size_t>(axis)];
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < condition->size(); ++i) {
    if (condition->get_int(i) == 0) continue;
    if (i >= n) return invalid("the condition keeps element {} of {}", i, n);
    kept.push_back(i);
  }
  return one(gather(c.b, x, axis, c.b.integers(kept)));
}

Result<Values> import_tensor_scatter(Context& c) {
  TESSERA_TRY(const std::int64_t axis, axis_attribute(c, -2));
  TESSERA_TRY(const std::string mode, c.word("mode", "linear"));
  if (mode != "linear" && mode != "circular")
    return invalid("mode '{}' is not linear or circular", mode);
  if (c.rank(0) < 1) return invalid("the cache is a scalar");
  const std::size_t batch = static_cast<std::size_t>(std::max<std::int64_t>(0, c.shape(0)[0]));
  const ValueId starts = c.has(2) ? c.in(2) : c.b.integers(std::vector<std::int64_t>(batch, 0));
  return one(c.b.add("cache_update", {c.in(0), c.in(1), starts},
                     {{"axis", axis}, {"circular", std::int64_t{mode == "circular"}}}));
}

}  // namespace

std::vector<OnnxOp> indexing_rows() {
  return {
      {"Gather", 1, 2, 2, import_gather, "", false, Widened::kMoved},
      {"GatherElements", 11, 2, 2, import_gather_elements},
      {"GatherND", 11, 2, 2, import_gather_nd},
      {"Scatter", 9, 3, 3, import_scatter_elements},
      {"ScatterElements", 11, 3, 3, import_scatter_elements},
      {"ScatterND", 11, 3, 3, import_scatter_nd},
      {"OneHot", 9, 3, 3, import_one_hot},
      {"Trilu", 14, 1, 2, import_trilu},
      {"CumProd", 26, 2, 2, import_cumulate},
      {"CumSum", 11, 2, 2, import_cumulate},
      {"ReverseSequence", 10, 2, 2, import_reverse_sequence},
      {"Compress", 9, 2, 2, import_compress},
      {"TensorScatter", 24, 2, 3, import_tensor_scatter},
  };
}

}  // namespace tessera::onnx
