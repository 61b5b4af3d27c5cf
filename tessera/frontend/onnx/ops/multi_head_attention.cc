// MultiHeadAttention and Attention of com.microsoft, in which masks add a large negative number.
#include <cmath>
#include <limits>

#include "tessera/frontend/onnx/ops/attention_parts.h"
#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/frontend/onnx/ops/contrib.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

struct Sizes {
  std::int64_t batch = 0, queries = 0, keys = 0, past = 0, heads = 0;
};

struct Options {
  double scale = 0, filter = -10000;
  bool causal = false;
};

Result<Options> read_options(const Context& c) {
  Options o;
  TESSERA_TRY(o.scale, c.number("scale", 0.0));
  TESSERA_TRY(o.filter, c.number("mask_filter_value", -10000.0));
  TESSERA_TRY(const std::int64_t causal, c.integer("unidirectional", 0));
  o.causal = causal != 0;
  return o;
}

// Keys that a mask of input `i` shows, to be broadcast to the scores: bool. The mask has a length
// for each sequence, ends and starts, lengths and offsets, or zeros where a key is hidden.
Result<Term> visible(Formula& f, const Context& c, std::size_t i, const Sizes& s) {
  const Shape shape = c.shape(i);
  if (!is_int(c.dtype(i))) return invalid("a mask of {}", to_text(c.dtype(i)));
  const Term mask = f.cast(f.in(i), DType::kI64);
  const auto column = [&](std::int64_t first) {
    return f.reshape(slice(f, mask, 0, first, s.batch), {s.batch, 1, 1, 1});
  };
  if (shape.size() == 1) {
    const Term seen = call("lt", counting(f, s.keys), column(0));
    if (shape[0] == s.batch || shape[0] == 3 * s.batch + 2) return seen;
    if (shape[0] == 2 * s.batch)
      return call("and", seen, call("le", column(s.batch), counting(f, s.keys)));
  }
  const auto shown = [&](Term values, const Shape& spread) {
    return call("lt", f.number(DType::kI64, 0), f.reshape(values, spread));
  };
  if (shape == Shape{s.batch, s.keys}) return shown(mask, {s.batch, 1, 1, s.keys});
  if (shape == Shape{s.batch, s.queries, s.keys})
    return shown(mask, {s.batch, 1, s.queries, s.keys});
  const bool square = shape.size() == 4 && shape[0] == s.batch && shape[1] == 1 &&
                      shape[2] == shape[3] && shape[3] >= s.keys;
  if (!square) return make_error(ErrorCode::kUnsupported, "a mask of shape {}", to_text(shape));
  const Term rows = slice(f, mask, 2, s.keys - s.queries, s.queries);
  return shown(slice(f, rows, 3, 0, s.keys), {s.batch, 1, s.queries, s.keys});
}

// Inputs `mask` and `bias`, and keys that come later, applied.
Result<Term> masked(Formula& f, const Context& c, Term scores, std::size_t mask, std::size_t bias,
                    const Sizes& s, const Options& o) {
  if (f.failed()) return f.error();
  const DType t = f.dtype(scores);
  if (c.has(bias)) {
    const Shape shape = c.shape(bias);
    const bool fits = shape.size() == 4 && (shape[0] == 1 || shape[0] == s.batch) &&
                      (shape[1] == 1 || shape[1] == s.heads) && shape[2] == s.queries &&
                      shape[3] == s.keys;
    if (!fits) return invalid("attention_bias is {}", to_text(shape));
    scores = scores + f.cast(f.in(bias), t);
  }
  if (c.has(mask)) {
    TESSERA_TRY(const Term seen, visible(f, c, mask, s));
    scores = scores + where(seen, f.number(t, 0), f.number(t, o.filter));
  }
  if (!o.causal) return scores;
  const Term first = f.number(DType::kI64, static_cast<double>(s.keys - s.queries));
  const Term later = call("lt", query_positions(f, first, s.queries), key_positions(f, s.keys));
  return where(later, -std::numeric_limits<double>::infinity(), scores);
}

struct Heads {
  Term q, k, v;  // [batch, heads, sequence, size]
};

// The scores' weights and what they mix, of keys and values that follow the past ones.
struct Mixed {
  Term scores, output;
};
Result<Mixed> attend(Formula& f, const Context& c, const Heads& x, std::size_t mask,
                     std::size_t bias, const Options& o) {
  if (f.failed()) return f.error();
  const Shape q = f.shape(x.q), k = f.shape(x.k), v = f.shape(x.v);
  if (q[0] != k[0] || k[0] != v[0] || q[3] != k[3] || k[2] != v[2] || q[1] != k[1] || k[1] != v[1])
    return invalid("queries {}, keys {} and values {} do not fit", to_text(q), to_text(k),
                   to_text(v));
  const Sizes s{.batch = q[0], .queries = q[2], .keys = k[2], .heads = q[1]};
  if (o.causal && s.keys < s.queries)
    return invalid("unidirectional with {} queries and {} keys", s.queries, s.keys);
  const double scale = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(q[3]));
  const Term raw = per_head(f, x.q * scale, x.k, false);
  TESSERA_TRY(const Term scores, masked(f, c, raw, mask, bias, s, o));
  const Term weights = f.op("softmax", {scores}, {{"axis", std::int64_t{3}}});
  return Mixed{scores, merge_heads(f, per_head(f, weights, x.v, true))};
}

// --- MultiHeadAttention ------------------------------------------------------------------------

enum Input : std::size_t { kQuery, kKey, kValue, kBias, kPadding, kAdded, kPastKey, kPastValue };

// Heads of x [batch, sequence, heads * size] after its part of the bias, which begins at `first`.
Result<Term> biased_heads(Formula& f, const Context& c, Term x, std::int64_t first,
                          std::int64_t heads) {
  if (f.failed()) return f.error();
  const std::int64_t width = f.shape(x)[2];
  if (width == 0 || width % heads != 0) return invalid("width {} for {} heads", width, heads);
  if (c.has(kBias)) x = x + slice(f, f.in(kBias), 0, first, width);
  return split_heads(f, x, heads);
}

// Part `i` of packed projections [batch, sequence, heads, parts, size], as one that is not packed.
Term unpacked(Formula& f, Term x, std::int64_t i) {
  const Term part = pick(f, x, 3, i);
  if (f.failed()) return part;
  const Shape s = f.shape(part);
  return f.reshape(part, {s[0], s[1], s[2] * s[3]});
}

// The operands as projections [batch, sequence, width]; keys and values may have heads already.
struct Operands {
  Term q, k, v;
  bool split = false;  // k and v are [batch, heads, sequence, size]
};

Result<Operands> read_operands(Formula& f, const Context& c, std::int64_t heads) {
  const auto packed = [&](std::size_t i, std::int64_t parts) {
    return c.has(i) && c.rank(i) == 5 && c.shape(i)[2] == heads && c.shape(i)[3] == parts;
  };
  const Term q = f.in(kQuery);
  if (packed(kQuery, 3) && !c.has(kKey) && !c.has(kValue))
    return Operands{unpacked(f, q, 0), unpacked(f, q, 1), unpacked(f, q, 2)};
  if (c.rank(kQuery) != 3 || !c.has(kKey))
    return invalid("query {} without keys is not packed", to_text(c.shape(kQuery)));
  if (packed(kKey, 2) && !c.has(kValue))
    return Operands{q, unpacked(f, f.in(kKey), 0), unpacked(f, f.in(kKey), 1)};
  const std::int64_t rank = c.rank(kKey);
  if (!c.has(kValue) || c.rank(kValue) != rank || (rank != 3 && rank != 4))
    return invalid("key {} and its value do not fit", to_text(c.shape(kKey)));
  return Operands{q, f.in(kKey), f.in(kValue), rank == 4};
}

Result<Heads> read_heads(Formula& f, const Context& c, std::int64_t heads) {
  TESSERA_TRY(const Operands x, read_operands(f, c, heads));
  if (f.failed()) return f.error();
  const Shape q = f.shape(x.q), k = f.shape(x.k), v = f.shape(x.v);
  const std::int64_t keys = x.split ? k[1] * k[3] : k[2], values = x.split ? v[1] * v[3] : v[2];
  if (c.has(kBias) && c.shape(kBias) != Shape{q[2] + keys + values})
    return invalid("bias {} for widths {}, {} and {}", to_text(c.shape(kBias)), q[2], keys, values);
  Heads out;
  TESSERA_TRY(out.q, biased_heads(f, c, x.q, 0, heads));
  if (x.split) {  // their bias is in them
    out.k = x.k;
    out.v = x.v;
    return out;
  }
  TESSERA_TRY(out.k, biased_heads(f, c, x.k, q[2], heads));
  TESSERA_TRY(out.v, biased_heads(f, c, x.v, q[2] + keys, heads));
  return out;
}

Result<Values> import_multi_head_attention(Context& c) {
  TESSERA_TRY(const std::int64_t heads, c.integer("num_heads"));
  if (heads < 1) return invalid("{} heads", heads);
  TESSERA_TRY(const Options o, read_options(c));
  if (c.has(8) || c.has(9)) {
    return make_error(ErrorCode::kUnsupported,
                      "a shared cache (past_sequence_length, cache_indirection)");
  }
  if (c.has(kPastKey) != c.has(kPastValue))
    return invalid("past_key and past_value belong together");
  Formula f(c);
  TESSERA_TRY(Heads x, read_heads(f, c, heads));
  if (f.failed()) return f.error();
  const std::int64_t queries = f.shape(x.q)[2], added = f.shape(x.k)[2];
  // Engines do not agree about which keys come before a query then.
  if (o.causal && queries > 1 && added != queries)
    return make_error(ErrorCode::kUnsupported, "unidirectional with {} queries and {} keys",
                      queries, added);
  if (c.has(kPastKey)) {
    x.k = concat(f, {f.in(kPastKey), x.k}, 2);
    x.v = concat(f, {f.in(kPastValue), x.v}, 2);
  }
  TESSERA_TRY(const Mixed y, attend(f, c, x, kPadding, kAdded, o));
  return f.result({y.output, x.k, x.v, y.scores});
}

// --- Attention ---------------------------------------------------------------------------------

enum AttentionInput : std::size_t { kX, kWeights, kXBias, kMask, kPast, kScoreBias, kPastLength };

// Widths of queries, keys and values.
Result<std::vector<std::int64_t>> read_widths(const Context& c, std::int64_t heads) {
  if (c.rank(kX) != 3 || c.rank(kWeights) != 2 || c.shape(kX)[2] != c.shape(kWeights)[0])
    return invalid("input {} and weights {}", to_text(c.shape(kX)), to_text(c.shape(kWeights)));
  const std::int64_t all = c.shape(kWeights)[1];
  TESSERA_TRY(const std::vector<std::int64_t> widths,
              c.integers("qkv_hidden_sizes", std::vector<std::int64_t>(3, all / 3)));
  std::int64_t sum = 0;
  for (const std::int64_t width : widths) {
    if (width < 1 || width > all || width % heads != 0)
      return invalid("a projection of width {} for {} heads", width, heads);
    sum += width;
  }
  if (widths.size() != 3 || sum != all || widths[0] != widths[1])
    return invalid("weights of {} columns for widths {}", all, to_text(widths));
  if (c.has(kXBias) && c.shape(kXBias) != Shape{all})
    return invalid("bias {} for {} columns", to_text(c.shape(kXBias)), all);
  return widths;
}

Result<Values> import_attention_of_weights(Context& c) {
  TESSERA_TRY(const std::int64_t heads, c.integer("num_heads"));
  if (heads < 1) return invalid("{} heads", heads);
  TESSERA_TRY(const Options o, read_options(c));
  for (const char* name : {"do_rotary", "past_present_share_buffer"}) {
    TESSERA_TRY(const std::int64_t value, c.integer(name, 0));
    if (value != 0) return make_error(ErrorCode::kUnsupported, "{}={}", name, value);
  }
  if (c.has(kPastLength)) return make_error(ErrorCode::kUnsupported, "past_sequence_length");
  TESSERA_TRY(const auto widths, read_widths(c, heads));
  if (c.has(kPast) && (c.rank(kPast) != 5 || c.shape(kPast)[0] != 2))
    return invalid("past is {}", to_text(c.shape(kPast)));
  Formula f(c);
  std::int64_t first = 0;
  const auto project = [&](std::size_t i) -> Result<Term> {
    const Term w = slice(f, f.in(kWeights), 1, first, widths[i]);
    if (f.failed()) return f.error();
    TESSERA_TRY(const ValueId product, matmul(c.b, c.in(kX), w.id));
    Term x = f.value(product);
    if (c.has(kXBias)) x = x + slice(f, f.in(kXBias), 0, first, widths[i]);
    first += widths[i];
    return split_heads(f, x, heads);
  };
  Heads x;
  TESSERA_TRY(x.q, project(0));
  TESSERA_TRY(x.k, project(1));
  TESSERA_TRY(x.v, project(2));
  if (c.has(kPast)) {
    x.k = concat(f, {pick(f, f.in(kPast), 0, 0), x.k}, 2);
    x.v = concat(f, {pick(f, f.in(kPast), 0, 1), x.v}, 2);
  }
  TESSERA_TRY(const Mixed y, attend(f, c, x, kMask, kScoreBias, o));
  if (!c.wants(1)) return f.result({y.output});
  const auto first_of_two = [&](Term t) {
    Shape s = f.shape(t);
    s.insert(s.begin(), 1);
    return f.reshape(t, s);
  };
  if (f.failed() || f.shape(x.k) != f.shape(x.v))
    return invalid("present keys and values of different sizes");
  return f.result({y.output, concat(f, {first_of_two(x.k), first_of_two(x.v)}, 0)});
}

}  // namespace

std::vector<OnnxOp> multi_head_rows() {
  return {
      {"Attention", 1, 2, 7, import_attention_of_weights, kMicrosoft},
      {"MultiHeadAttention", 1, 1, 10, import_multi_head_attention, kMicrosoft},
  };
}

}  // namespace tessera::onnx
