// Conversion between floats and small integers by scale and zero point.
#include "tessera/frontend/onnx/integer_products.h"
#include "tessera/frontend/onnx/ops/contrib.h"
#include "tessera/frontend/onnx/ops/element_type.h"
#include "tessera/frontend/onnx/ops/integers.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

// How scale and zero point lie along the data.
struct Layout {
  std::int64_t axis = 0;
  std::int64_t block = 0;  // elements of the axis that share a scale; 0: not blocked
  Shape data;
};

Result<Layout> read_layout(Context& c) {
  Layout layout{.axis = 0, .block = 0, .data = c.shape(0)};
  TESSERA_TRY(layout.block, c.integer("block_size", 0));
  if (layout.block < 0) return invalid("block_size {} is negative", layout.block);
  const std::int64_t scale_rank = c.rank(1);
  if (layout.block == 0 && (scale_rank == 0 || c.shape(1) == Shape{1})) return layout;
  TESSERA_TRY(const std::int64_t axis, c.integer("axis", 1));
  // The axis of a vector has one meaning, whatever the default says.
  TESSERA_TRY(layout.axis, c.axis(c.rank(0) == 1 ? 0 : axis, c.rank(0)));
  return layout;
}

void check_blocks(Formula& f, Term x, const Layout& layout) {
  const auto axis = static_cast<std::size_t>(layout.axis);
  const Shape shape = f.shape(x);
  bool fits = shape.size() == layout.data.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    const std::int64_t size = layout.data[d];
    fits = shape[d] == (d == axis ? size / layout.block + (size % layout.block != 0) : size);
  }
  if (fits) return;
  f.fail(invalid("scale or zero point of shape {} does not fit blocks of {} along axis {} of {}",
                 to_text(shape), layout.block, layout.axis, to_text(layout.data)));
}

// Repeats each element of x along the axis `block` times, cut to the size of the data.
Term repeat_blocks(Formula& f, Term x, const Layout& layout) {
  check_blocks(f, x, layout);
  if (f.failed()) return x;
  const auto axis = static_cast<std::size_t>(layout.axis);
  const Shape shape = f.shape(x);
  // A block larger than the axis is no larger than the axis.
  const std::int64_t block = std::min(layout.block, std::max<std::int64_t>(layout.data[axis], 1));
  Shape split = shape, repeated = shape, joined = shape;
  split.insert(split.begin() + layout.axis + 1, 1);
  repeated.insert(repeated.begin() + layout.axis + 1, block);
  joined[axis] *= block;
  x = f.op("expand", {f.reshape(x, split)}, {{"shape", repeated}});
  x = f.reshape(x, joined);
  if (joined == layout.data) return x;
  return f.op("slice", {x},
              {{"starts", std::vector<std::int64_t>(shape.size(), 0)},
               {"steps", std::vector<std::int64_t>(shape.size(), 1)},
               {"sizes", layout.data}});
}

// Scale or zero point in a shape that broadcasts along the data.
Term spread(Formula& f, Term x, const Layout& layout) {
  if (layout.block > 0) return repeat_blocks(f, x, layout);
  const Shape shape = f.shape(x);
  if (shape.empty() || shape == Shape{1}) return f.reshape(x, {});
  if (shape != Shape{layout.data[static_cast<std::size_t>(layout.axis)]}) {
    f.fail(invalid("scale or zero point of shape {} does not lie along axis {} of {}",
                   to_text(shape), layout.axis, to_text(layout.data)));
    return x;
  }
  return f.along(x, layout.axis, static_cast<std::int64_t>(layout.data.size()));
}

// Attribute output_dtype, the type of the zero point, or the operator's default.
Result<DType> target_type(Context& c, DType absent) {
  TESSERA_TRY(const std::int64_t number, c.integer("output_dtype", 0));
  if (number != 0) return dtype_of_number(number);
  return c.has(2) ? c.dtype(2) : absent;
}

// round(x / scale) + zero point; casting rounds nothing more and saturates. Floats round as they
// are cast.
Term quantize(Formula& f, Term x, Term scale, Term zero_point, DType to) {
  if (is_float(to)) return f.cast(saturated(f, x / scale + f.cast(zero_point, f.dtype(x)), to), to);
  return f.cast(call("round", x / scale) + f.cast(zero_point, f.dtype(x)), to);
}

Result<Values> import_quantize(Context& c) {
  TESSERA_TRY(const Layout layout, read_layout(c));
  TESSERA_TRY(const DType to, target_type(c, DType::kU8));
  if (size_bytes(to) > (is_int(to) ? 2 : 1) || to == DType::kBool)
    return invalid("cannot quantize to {}", to_text(to));
  if (c.has(2) && c.dtype(2) != to) {
    return invalid("the zero point is {}, the output {}", to_text(c.dtype(2)), to_text(to));
  }
  Formula f(c);
  // Integers up to 2^31 are divided too: f32 rounds them as the reference does.
  const DType t = c.dtype(0) == DType::kF64 ? DType::kF64 : DType::kF32;
  const Term scale = f.cast(spread(f, f.in(1), layout), t);
  const Term zero_point = c.has(2) ? spread(f, f.in(2), layout) : f.number(to, 0);
  return f.result({quantize(f, f.cast(f.in(0), t), scale, zero_point, to)});
}

// Scale or zero point with as many dimensions as the data.
Term aligned(Formula& f, Term x, const Layout& layout) {
  if (layout.block > 0) {
    check_blocks(f, x, layout);
    return x;
  }
  Shape shape(layout.data.size(), 1);
  if (!f.shape(spread(f, x, layout)).empty()) {
    const auto axis = static_cast<std::size_t>(layout.axis);
    shape[axis] = layout.data[axis];
  }
  return f.failed() ? x : f.reshape(x, shape);
}

// Weights stay as they are until it is known what reads them.
bool is_weights(const Context& c) {
  const bool byte = c.dtype(0) == DType::kI8 || c.dtype(0) == DType::kU8;
  const bool constant = c.b.constant_of(c.in(0)) && c.b.constant_of(c.in(1)) &&
                        (!c.has(2) || c.b.constant_of(c.in(2)));
  return byte && constant && c.rank(0) >= 2 && elements(c.shape(0)) > 0;
}

Result<Values> import_weights(Context& c, const Layout& layout, DType to) {
  Formula f(c);
  std::vector<Term> parts = {f.in(0), aligned(f, f.in(1), layout)};
  if (c.has(2)) parts.push_back(aligned(f, f.in(2), layout));
  const std::int64_t bits = c.widened[0] != 0 ? c.widened[0] : 8;
  return f.result({f.op("dequantize", parts,
                        {{"axis", layout.axis},
                         {"group", std::max<std::int64_t>(layout.block, 1)},
                         {"bits", bits},
                         {"to", std::string(tessera::to_text(to))}})});
}

Result<Values> import_dequantize(Context& c) {
  TESSERA_TRY(const Layout layout, read_layout(c));
  const bool short_float = is_float(c.dtype(0)) && size_bytes(c.dtype(0)) == 1;
  if (!is_int(c.dtype(0)) && !short_float && !c.widened[0]) {
    return invalid("cannot dequantize {}", to_text(c.dtype(0)));
  }
  if (c.has(2) && c.dtype(2) != c.dtype(0)) {
    return invalid("the zero point is {}, the data {}", to_text(c.dtype(2)), to_text(c.dtype(0)));
  }
  TESSERA_TRY(const std::int64_t number, c.integer("output_dtype", 0));
  DType to = c.dtype(1);
  if (number != 0) {
    TESSERA_TRY(to, dtype_of_number(number));
  }
  if (!is_float(to)) return invalid("cannot dequantize to {}", to_text(to));
  if (is_weights(c)) return import_weights(c, layout, to);
  Formula f(c);
  const DType t = compute_type(to);
  Term x = f.in(0);
  // f32 holds the differences of 16-bit integers exactly; larger ones are subtracted as they are.
  const bool small = size_bytes(c.dtype(0)) <= 2;
  if (small) x = f.cast(x, t);
  if (c.has(2)) x = x - f.cast(spread(f, f.in(2), layout), f.dtype(x));
  const Term scale = f.cast(spread(f, f.in(1), layout), t);
  return f.result(f.cast(x, t) * scale, to);
}

Result<Values> import_dynamic_quantize(Context& c) {
  if (c.dtype(0) != DType::kF32) return invalid("cannot quantize {}", to_text(c.dtype(0)));
  Formula f(c);
  const Quantized y = dynamic_quantize(f, f.in(0));
  return f.result({y.data, y.scale, y.zero_point});
}

Result<Values> import_either(Context& c) {
  TESSERA_TRY(const std::string key, c.word("key"));
  TESSERA_TRY(const std::int64_t bytes_first, c.integer("bytes_first"));
  TESSERA_TRY(const std::int64_t only, c.integer("only"));
  if (c.shape(0) != c.shape(1)) return invalid("values of different shapes");
  TESSERA_TRY(const ValueId out,
              c.b.add("either", {c.in(0), c.in(1)},
                      {{"key", key}, {"bytes_first", bytes_first}, {"only", only}}));
  return Values{out};
}

}  // namespace

// The range always holds 0.
Quantized dynamic_quantize(Formula& f, Term x) {
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < f.shape(x).size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  const Term high = call("max", f.reduce("max", x, axes, false), 0);
  const Term low = call("min", f.reduce("min", x, axes, false), 0);
  const Term range = high - low;
  // Data of zeros only has no range: any scale is right, and 1 avoids 0 / 0.
  const Term scale = where(call("eq", range, 0), 1, range / 255);
  const Term zero_point = f.cast(call("round", -low / scale), DType::kU8);
  return {quantize(f, x, scale, zero_point, DType::kU8), scale, zero_point};
}

std::vector<OnnxOp> quantization_rows() {
  return {
      {"DequantizeLinear", 10, 2, 3, import_dequantize, "", false, Widened::kNumbers},
      {"DequantizeLinear", 1, 2, 3, import_dequantize, kMicrosoft, false, Widened::kNumbers},
      {"DynamicQuantizeLinear", 11, 1, 1, import_dynamic_quantize},
      {"Either", 1, 2, 2, import_either, kOwnDomain},
      {"QuantizeLinear", 10, 2, 3, import_quantize},
      {"QuantizeLinear", 1, 2, 3, import_quantize, kMicrosoft},
  };
}

}  // namespace tessera::onnx
