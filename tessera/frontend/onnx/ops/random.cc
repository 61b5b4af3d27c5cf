// Random numbers. They are drawn from the node's seed while the model is read, so that every run of
// a program sees the same ones; a node without a seed takes one from the name of its output. Other
// calls of a function and other steps of a loop draw other numbers, unless the loop is too long to
// unroll.
#include <bit>
#include <cmath>
#include <numbers>
#include <string>

#include "tessera/frontend/onnx/ops/element_type.h"
#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/support/hash.h"
#include "tessera/support/invalid.h"
#include "tessera/support/rng.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

Result<Rng> stream_of(const Context& c) {
  const std::string name = c.node.outputs.empty() ? "" : c.node.outputs[0];
  std::uint64_t seed = hash_bytes(name);
  if (c.has_attribute("seed")) {
    TESSERA_TRY(const double given, c.number("seed"));
    seed = std::bit_cast<std::uint64_t>(given);
  }
  const std::int64_t before = c.bodies.count_draw(name);
  return Rng(before == 0 ? seed : hash_bytes(std::to_string(before), seed));
}

// Of attribute dtype, or else `absent`.
Result<DType> drawn_type(const Context& c, DType absent) {
  if (!c.has_attribute("dtype")) return absent;
  TESSERA_TRY(const std::int64_t number, c.integer("dtype"));
  return dtype_of_number(number);
}

// They are kept with the program.
constexpr std::int64_t kMostDrawn = std::int64_t{1} << 26;

using Drawer = double (*)(Rng& rng);

double uniform(Rng& rng) { return rng.uniform(); }

double normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

// offset + factor * a number drawn. What rounding would make the end of a range, where no uniform
// number is, becomes its beginning.
Result<HostTensor> drawn(Rng rng, DType t, const Shape& shape, Drawer draw, double offset = 0,
                         double factor = 1) {
  TESSERA_TRY(const std::int64_t count, checked_elements(shape, t));
  if (count > kMostDrawn)
    return make_error(ErrorCode::kUnsupported, "{} random numbers, at most {}", count, kMostDrawn);
  HostTensor out(t, shape);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    out.set_float(i, offset + factor * draw(rng));
    if (draw == uniform && factor > 0 && out.get_float(i) >= offset + factor)
      out.set_float(i, offset);
  }
  return out;
}

Result<Values> import_drawn(Context& c, Drawer draw) {
  const bool like = !c.inputs.empty();
  TESSERA_TRY(const Rng rng, stream_of(c));
  TESSERA_TRY(const DType t, drawn_type(c, like ? c.dtype(0) : DType::kF32));
  if (!is_float(t)) return invalid("random numbers of type {}", to_text(t));
  Shape shape = like ? c.shape(0) : Shape{};
  if (!like) {
    TESSERA_TRY(shape, c.integers("shape"));
  }
  double offset = 0, factor = 1;
  if (draw == normal) {
    TESSERA_TRY(offset, c.number("mean", 0.0));
    TESSERA_TRY(factor, c.number("scale", 1.0));
  } else {
    TESSERA_TRY(offset, c.number("low", 0.0));
    TESSERA_TRY(const double high, c.number("high", 1.0));
    factor = high - offset;
  }
  TESSERA_TRY(HostTensor values, drawn(rng, t, shape, draw, offset, factor));
  return Values{c.b.constant(std::move(values))};
}

Result<Values> import_normal(Context& c) { return import_drawn(c, normal); }
Result<Values> import_uniform(Context& c) { return import_drawn(c, uniform); }

// 1 with the probability that the input says.
Result<Values> import_bernoulli(Context& c) {
  TESSERA_TRY(const Rng rng, stream_of(c));
  TESSERA_TRY(const DType t, drawn_type(c, c.dtype(0)));
  Formula f(c);
  const Term p = f.wide(0);
  TESSERA_TRY(HostTensor values, drawn(rng, f.dtype(p), c.shape(0), uniform));
  return f.result({f.cast(call("lt", f.constant(std::move(values)), p), t)});
}

// Classes drawn by their logarithms of probabilities [batch, classes].
Result<Values> import_multinomial(Context& c) {
  TESSERA_TRY(const Rng rng, stream_of(c));
  TESSERA_TRY(const std::int64_t samples, c.integer("sample_size", 1));
  TESSERA_TRY(const DType t, drawn_type(c, DType::kI32));
  if (t != DType::kI32 && t != DType::kI64) return invalid("classes of type {}", to_text(t));
  if (c.rank(0) != 2 || c.shape(0)[1] < 1 || samples < 1)
    return invalid("{} samples of {}", samples, to_text(c.shape(0)));
  const std::int64_t batch = c.shape(0)[0], classes = c.shape(0)[1];
  Formula f(c);
  const Term shares = f.op("softmax", {f.wide(0)}, {{"axis", std::int64_t{1}}});
  const Term sums =
      f.op("cumulate", {shares}, {{"kind", std::string("sum")}, {"axis", std::int64_t{1}}});
  TESSERA_TRY(HostTensor values, drawn(rng, f.dtype(shares), {batch, samples, 1}, uniform));
  const Term below =
      call("le", f.reshape(sums, {batch, 1, classes}), f.constant(std::move(values)));
  const Term count = f.reduce("sum", f.cast(below, t), {2}, false);
  return f.result({call("min", count, static_cast<double>(classes - 1))});
}

}  // namespace

std::vector<OnnxOp> random_rows() {
  return {
      {"Bernoulli", 15, 1, 1, import_bernoulli},  {"Multinomial", 7, 1, 1, import_multinomial},
      {"RandomNormal", 1, 0, 0, import_normal},   {"RandomNormalLike", 1, 1, 1, import_normal},
      {"RandomUniform", 1, 0, 0, import_uniform}, {"RandomUniformLike", 1, 1, 1, import_uniform},
  };
}

}  // namespace tessera::onnx
