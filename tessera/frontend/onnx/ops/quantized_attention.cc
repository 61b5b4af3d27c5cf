// QAttention of com.microsoft: self-attention whose projection multiplies bytes.
#include <cmath>
#include <limits>

#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/frontend/onnx/ops/contrib.h"
#include "tessera/frontend/onnx/ops/integers.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

enum Input : std::size_t {
  kX,
  kWeight,
  kBias,
  kXScale,
  kWeightScale,
  kMask,
  kXZero,
  kWeightZero,
  kPast
};

struct Sizes {
  std::int64_t batch, length, heads, head;
};

Result<Sizes> read_sizes(const Context& c) {
  TESSERA_TRY(const std::int64_t heads, c.integer("num_heads"));
  if (c.rank(kX) != 3 || c.rank(kWeight) != 2 || c.rank(kBias) != 1)
    return invalid("an input [batch, length, width], a matrix and a bias are needed");
  const std::int64_t width = c.shape(kWeight)[1] / 3;
  if (heads < 1 || c.shape(kWeight)[1] % 3 != 0 || width % heads != 0)
    return invalid("weights of {} columns for {} heads", c.shape(kWeight)[1], heads);
  if (c.has(kPast)) return make_error(ErrorCode::kUnsupported, "past keys and values");
  TESSERA_TRY(const std::int64_t rotary, c.integer("do_rotary", 0));
  if (rotary != 0) return make_error(ErrorCode::kUnsupported, "do_rotary");
  return Sizes{c.shape(kX)[0], c.shape(kX)[1], heads, width / heads};
}

// Scores plus `filter` where the mask hides a key: it is a length per batch element, or 0 for keys
// [batch, keys] and scores [batch, queries, keys].
Result<Term> masked(Formula& f, Context& c, Term scores, const Sizes& s, double filter) {
  if (f.failed() || !c.has(kMask)) return scores;
  const Shape shape = c.shape(kMask);
  const Term mask = f.cast(f.in(kMask), DType::kI32);
  const Term zero = f.number(DType::kF32, 0), hide = f.number(DType::kF32, filter);
  if (shape == Shape{s.batch}) {
    HostTensor keys(DType::kI32, {1, 1, 1, s.length});
    for (std::int64_t i = 0; i < s.length; ++i) keys.set_int(i, i);
    const Term seen = call("lt", f.constant(std::move(keys)), f.reshape(mask, {s.batch, 1, 1, 1}));
    return scores + where(seen, zero, hide);
  }
  Shape spread = {s.batch, 1, 1, s.length};
  if (shape == Shape{s.batch, s.length, s.length}) {
    spread[2] = s.length;
  } else if (shape != Shape{s.batch, s.length}) {
    return make_error(ErrorCode::kUnsupported, "a mask of shape {}", to_text(shape));
  }
  return scores + where(call("eq", f.reshape(mask, spread), 0), hide, zero);
}

Term hide_later_keys(Formula& f, Term scores, const Sizes& s) {
  if (f.failed()) return scores;  // too many for a mask, too
  HostTensor later(DType::kBool, {1, 1, s.length, s.length});
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t j = i + 1; j < s.length; ++j) later.set_int(i * s.length + j, 1);
  }
  return where(f.constant(std::move(later)),
               f.number(DType::kF32, std::numeric_limits<float>::lowest()), scores);
}

Result<Values> import_attention(Context& c) {
  TESSERA_TRY(const Sizes s, read_sizes(c));
  TESSERA_TRY(const double filter, c.number("mask_filter_value", -10000.0));
  TESSERA_TRY(const std::int64_t causal, c.integer("unidirectional", 0));
  TESSERA_TRY(const double scale, c.number("scale", 0.0));
  if (c.wants(1)) return make_error(ErrorCode::kUnsupported, "present keys and values");
  Formula f(c);
  const IntegerOperands x{f.in(kX), f.in(kWeight), optional_input(c, kXZero),
                          optional_input(c, kWeightZero)};
  TESSERA_TRY(const Term sums, integer_matmul(f, c, x));
  const Term step =
      f.cast(f.reshape(f.in(kXScale), {}), DType::kF32) * f.cast(f.in(kWeightScale), DType::kF32);
  const Term all = f.reshape(f.cast(sums, DType::kF32) * step + f.cast(f.in(kBias), DType::kF32),
                             {s.batch, s.length, 3, s.heads, s.head});
  const auto part = [&](std::int64_t i) { return transpose(f, pick(f, all, 2, i), {0, 2, 1, 3}); };
  const double factor = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(s.head));
  Term scores = contract(f, part(0), "bhik", part(1), "bhjk", "bhij") * factor;
  TESSERA_TRY(scores, masked(f, c, scores, s, filter));
  if (causal != 0) scores = hide_later_keys(f, scores, s);
  const Term weights = f.op("softmax", {scores}, {{"axis", std::int64_t{3}}});
  const Term y = contract(f, weights, "bhik", part(2), "bhkj", "bhij");
  return f.result(
      {f.reshape(transpose(f, y, {0, 2, 1, 3}), {s.batch, s.length, s.heads * s.head})});
}

}  // namespace

std::vector<OnnxOp> quantized_attention_rows() {
  return {{"QAttention", 1, 5, 9, import_attention, kMicrosoft}};
}

}  // namespace tessera::onnx
