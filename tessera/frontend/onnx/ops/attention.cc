// Attention (opset 23 on), and FlexAttention, which bodies modify.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/frontend/onnx/ops/attention_parts.h"
#include "tessera/frontend/onnx/ops/element_type.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

enum Input : std::size_t { kQ, kK, kV, kMask, kPastKey, kPastValue, kValidKeys };

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Wider than any sequence; sums with positions do not overflow.
constexpr std::int64_t kUnboundedWindow = std::int64_t{1} << 40;

struct Heads {
  std::int64_t q = 0, kv = 0;
  bool packed = false;  // inputs are [batch, sequence, heads * size]
};

Result<Heads> read_heads(const Context& c) {
  Heads heads;
  const std::int64_t rank = c.rank(kQ);
  if ((rank != 3 && rank != 4) || c.rank(kK) != rank || c.rank(kV) != rank) {
    return invalid("Q, K and V must all have rank 3 or 4");
  }
  heads.packed = rank == 3;
  if (heads.packed) {
    TESSERA_TRY(heads.q, c.integer("q_num_heads"));
    TESSERA_TRY(heads.kv, c.integer("kv_num_heads"));
  } else {
    heads.q = c.shape(kQ)[1];
    heads.kv = c.shape(kK)[1];
  }
  if (heads.q < 1 || heads.kv < 1 || heads.q % heads.kv != 0) {
    return invalid("{} heads of queries for {} heads of keys", heads.q, heads.kv);
  }
  if (heads.packed && (c.shape(kQ)[2] % heads.q != 0 || c.shape(kK)[2] % heads.kv != 0 ||
                       c.shape(kV)[2] % heads.kv != 0)) {
    return invalid("the last dimensions of Q, K and V are not multiples of their numbers of heads");
  }
  if (c.has(kPastKey) != c.has(kPastValue))
    return invalid("past_key and past_value belong together");
  return heads;
}

// Input `i` as [batch, heads, sequence, size].
Term heads_of(Formula& f, std::size_t i, std::int64_t heads, bool packed) {
  return packed ? split_heads(f, f.in(i), heads) : f.in(i);
}

// The given mask, as long as the keys: what it does not mention is masked.
Term full_mask(Formula& f, Term mask, std::int64_t keys) {
  if (f.failed()) return mask;
  Shape after(f.shape(mask).size(), 0);
  const std::int64_t missing = after.empty() ? 0 : keys - f.shape(mask).back();
  if (missing <= 0 || f.shape(mask).back() == 1) return mask;
  after.back() = missing;
  const DType t = f.dtype(mask);
  const Term fill = f.number(t, t == DType::kBool ? 0 : kMinusInfinity);
  return f.op(
      "pad", {mask, fill},
      {{"mode", std::string("constant")}, {"before", Shape(after.size(), 0)}, {"after", after}});
}

struct Options {
  double scale = 1, softcap = 0;
  bool causal = false;
  std::int64_t left = -1, right = -1;  // keys that a query sees beside its own; -1: all
  std::int64_t shown = 0;  // which scores are output 3: as multiplied, capped, masked, softmax
  DType softmax = DType::kF32;
};

Result<Options> read_options(const Context& c, std::int64_t head_size) {
  Options o;
  TESSERA_TRY(o.scale, c.number("scale", 1 / std::sqrt(static_cast<double>(head_size))));
  TESSERA_TRY(o.softcap, c.number("softcap", 0.0));
  TESSERA_TRY(const std::int64_t causal, c.integer("is_causal", 0));
  o.causal = causal != 0;
  for (const auto& [name, size] :
       {std::pair("left_window_size", &o.left), std::pair("right_window_size", &o.right)}) {
    TESSERA_TRY(*size, c.integer(name, -1));
    if (*size < -1) return invalid("{} is {}", name, *size);
    *size = std::min(*size, kUnboundedWindow);
  }
  TESSERA_TRY(o.shown, c.integer("qk_matmul_output_mode", 0));
  if (o.shown < 0 || o.shown > 3) return invalid("qk_matmul_output_mode {} is not 0 to 3", o.shown);
  o.softmax = c.dtype(kQ);
  if (c.has_attribute("softmax_precision")) {
    TESSERA_TRY(const std::int64_t type, c.integer("softmax_precision"));
    TESSERA_TRY(o.softmax, dtype_of_number(type));
  }
  return o;
}

// Scores with attn_mask, nonpad_kv_seqlen, is_causal and the windows applied.
Term apply_masks(Formula& f, Context& c, Term scores, std::int64_t past, const Options& o) {
  if (f.failed()) return scores;
  const Shape s = f.shape(scores);
  if (c.has(kMask)) {
    const Term mask = full_mask(f, f.in(kMask), s[3]);
    scores = f.dtype(mask) == DType::kBool ? where(mask, scores, kMinusInfinity)
                                           : scores + f.cast(mask, f.dtype(scores));
  }
  Term valid;  // keys that exist, per batch
  if (c.has(kValidKeys)) {
    valid = f.reshape(f.cast(f.in(kValidKeys), DType::kI64), {s[0], 1, 1, 1});
    scores = where(call("lt", counting(f, s[3]), valid), scores, kMinusInfinity);
  }
  if (!o.causal && o.left < 0 && o.right < 0) return scores;
  // Query i follows `past` keys, or ends with the last of the valid ones.
  const Term offset = c.has(kValidKeys) && !c.has(kPastKey)
                          ? valid - f.number(DType::kI64, static_cast<double>(s[2]))
                          : f.number(DType::kI64, static_cast<double>(past));
  const Term key = key_positions(f, s[3]), query = query_positions(f, offset, s[2]);
  const auto keep = [&](Term allowed) { scores = where(allowed, scores, kMinusInfinity); };
  if (o.causal) keep(call("le", key, query));
  if (o.left >= 0) keep(call("le", query - static_cast<double>(o.left), key));
  if (o.right >= 0) keep(call("le", key, query + static_cast<double>(o.right)));
  return scores;
}

// Whether the constant mask lets every query see a key.
bool shows_a_key(const HostTensor& mask) {
  const std::int64_t keys = mask.shape().empty() ? 1 : mask.shape().back();
  for (std::int64_t row = 0; row < mask.size(); row += keys) {
    bool shown = false;
    for (std::int64_t j = row; j < row + keys; ++j) {
      shown = shown ||
              (is_float(mask.dtype()) ? mask.get_float(j) != kMinusInfinity : mask.get_int(j) != 0);
    }
    if (!shown) return false;
  }
  return true;
}

// Whether some query may see no key at all.
bool may_hide_all(const Context& c, const Options& o) {
  if (c.has(kValidKeys) || o.left >= 0) return true;
  if (!c.has(kMask)) return false;
  const HostTensor* mask = c.b.constant_of(c.in(kMask));
  return mask == nullptr || o.causal || o.right >= 0 || !shows_a_key(*mask);
}

// Softmax over the keys; a query that sees none gets weights of 0 instead of 0 / 0.
Term key_weights(Formula& f, Context& c, Term scores, const Options& o) {
  const Term wide = f.cast(scores, o.softmax);
  const Term weights = f.op("softmax", {wide}, {{"axis", std::int64_t{3}}});
  if (!may_hide_all(c, o)) return f.cast(weights, c.dtype(kQ));
  const Term hidden = call("eq", f.reduce("max", wide, {3}), kMinusInfinity);
  return f.cast(where(hidden, 0, weights), c.dtype(kQ));
}

Result<std::vector<ValueId>> import_attention(Context& c) {
  TESSERA_TRY(const Heads heads, read_heads(c));
  Formula f(c);
  const Term q = heads_of(f, kQ, heads.q, heads.packed);
  Term k = heads_of(f, kK, heads.kv, heads.packed);
  Term v = heads_of(f, kV, heads.kv, heads.packed);
  if (f.failed()) return f.error();
  TESSERA_TRY(const Options options, read_options(c, f.shape(q)[3]));
  std::int64_t past = 0;
  if (c.has(kPastKey)) {
    if (c.rank(kPastKey) != 4) return invalid("past_key needs rank 4");
    past = c.shape(kPastKey)[2];
    k = concat(f, {f.in(kPastKey), k}, 2);
    v = concat(f, {f.in(kPastValue), v}, 2);
  }
  const Term raw = per_head(f, q * options.scale, k, false);
  Term capped = raw;
  if (options.softcap > 0) capped = call("tanh", raw / options.softcap) * options.softcap;
  const Term scores = apply_masks(f, c, capped, past, options);
  const Term weights = key_weights(f, c, scores, options);
  const Term mixed = per_head(f, weights, v, true);
  const Term y = heads.packed ? merge_heads(f, mixed) : mixed;
  Term shown = raw;
  if (options.shown == 1) shown = capped;
  if (options.shown == 2) shown = scores;
  if (options.shown == 3) shown = weights;
  return f.result({y, k, v, shown});
}

// The body of attribute `name` applied to x, which keeps its type; x itself without it.
Result<Term> modified(Formula& f, Context& c, const char* name, Term x) {
  if (!c.has_attribute(name)) return x;
  if (f.failed()) return f.error();
  TESSERA_TRY(const Graph* body, c.body(name));
  TESSERA_TRY(const std::vector<ValueId> out, c.bodies.import_body(*body, {x.id}));
  if (out.size() != 1) return invalid("{} has {} outputs", name, out.size());
  const Term y = f.value(out[0]);
  if (f.shape(y) != f.shape(x) || f.dtype(y) != f.dtype(x)) {
    return invalid("{} makes {} of {}", name, graph::to_text(c.b.type(y.id)),
                   graph::to_text(c.b.type(x.id)));
  }
  return y;
}

Result<std::vector<ValueId>> import_flex_attention(Context& c) {
  if (c.rank(kQ) != 4) return invalid("Q, K and V must have rank 4");
  TESSERA_TRY(const Heads heads, read_heads(c));
  const Shape q = c.shape(kQ), k = c.shape(kK), v = c.shape(kV);
  if (v[1] != heads.kv || v[2] != k[2] || k[3] != q[3] || k[0] != q[0] || v[0] != q[0]) {
    return invalid("Q {}, K {} and V {} do not fit", to_text(q), to_text(k), to_text(v));
  }
  TESSERA_TRY(const double scale, c.number("scale", 1 / std::sqrt(static_cast<double>(q[3]))));
  DType precise = compute_type(c.dtype(kQ));
  if (c.has_attribute("softmax_precision")) {
    TESSERA_TRY(const std::int64_t type, c.integer("softmax_precision"));
    TESSERA_TRY(precise, dtype_of_number(type));
    if (!is_float(precise)) return invalid("softmax_precision is {}", to_text(precise));
  }
  Formula f(c);
  const Term query = f.in(kQ);
  const Term products = per_head(f, query * scale, f.in(kK), false);
  TESSERA_TRY(const Term scores, modified(f, c, "score_mod", f.cast(products, precise)));
  const Term softmax = f.op("softmax", {scores}, {{"axis", std::int64_t{3}}});
  TESSERA_TRY(const Term weights, modified(f, c, "prob_mod", softmax));
  return f.result(per_head(f, weights, f.cast(f.in(kV), precise), true), c.dtype(kV));
}

}  // namespace

std::vector<OnnxOp> attention_rows() {
  std::vector<OnnxOp> rows = {
      {"Attention", 23, 3, 7, import_attention},
      {"FlexAttention", 1, 3, 3, import_flex_attention, "ai.onnx.preview"},
  };
  for (const auto family : {linear_attention_rows, rotary_embedding_rows,
                            group_query_attention_rows, multi_head_rows}) {
    for (const OnnxOp& row : family()) rows.push_back(row);
  }
  return rows;
}

}  // namespace tessera::onnx
