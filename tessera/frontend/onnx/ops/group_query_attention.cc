// GroupQueryAttention of com.microsoft: decoders whose heads of queries share heads of keys, with a
// cache, rotation of positions and windows inside.
#include <cmath>
#include <limits>

#include "tessera/frontend/onnx/ops/attention_parts.h"
#include "tessera/frontend/onnx/ops/contrib.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

enum Input : std::size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,  // of the sequences, new tokens included, less one
  kTotal,
  kCosine,
  kSine,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
};

constexpr double kHidden = -std::numeric_limits<double>::infinity();

struct Grouped {
  std::int64_t batch = 0, tokens = 0, heads = 0, kv_heads = 0, size = 0;
  std::int64_t total = 0;  // tokens of the longest sequence, new ones included
  std::int64_t rows = 0;   // of the cache
  std::int64_t window = -1, shown = 0;
  bool packed = false, rotary = false, interleaved = false, causal = true, smooth = false;
  double scale = 1, softcap = 0, epsilon = 1e-6;

  // Every sequence begins here: the cache is empty, whatever its rows hold.
  bool first() const { return tokens == total; }
};

// What is not computed.
Result<void> refuse_options(const Context& c) {
  for (const char* name : {"kv_cache_bit_width", "sliding_window_cache"}) {
    TESSERA_TRY(const std::int64_t value, c.integer(name, 0));
    if (value != 0) return make_error(ErrorCode::kUnsupported, "{}={}", name, value);
  }
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    TESSERA_TRY(const std::string type, c.word(name, "NONE"));
    if (type != "NONE") return make_error(ErrorCode::kUnsupported, "{} {}", name, type);
  }
  return {};
}

Result<void> read_group_options(const Context& c, Grouped& g) {
  TESSERA_DO(refuse_options(c));
  TESSERA_TRY(const std::int64_t rotary, c.integer("do_rotary", 0));
  TESSERA_TRY(const std::int64_t interleaved, c.integer("rotary_interleaved", 0));
  TESSERA_TRY(const std::int64_t causal, c.integer("causal", 1));
  TESSERA_TRY(const std::int64_t smooth, c.integer("smooth_softmax", 0));
  g.rotary = rotary != 0;
  g.interleaved = interleaved != 0;
  g.causal = causal != 0;
  g.smooth = smooth == 1 || c.has(kSink);  // -1, the default, may be written out
  TESSERA_TRY(g.window, c.integer("local_window_size", -1));
  if (g.window == 0 || g.window < -1 || (g.window > 0 && !g.causal))
    return invalid("local_window_size={} with causal={}", g.window, causal);
  TESSERA_TRY(g.shown, c.integer("qk_output", 0));
  if (g.shown < 0 || g.shown > 2) return invalid("qk_output {} is not 0 to 2", g.shown);
  TESSERA_TRY(g.softcap, c.number("softcap", 0.0));
  TESSERA_TRY(g.epsilon, c.number("qk_norm_epsilon", 1e-6));
  TESSERA_TRY(g.scale, c.number("scale", 0.0));
  if (g.scale == 0) g.scale = 1 / std::sqrt(static_cast<double>(g.size));
  return {};
}

Result<void> expect_shape(const Context& c, std::size_t i, const char* what, const Shape& want) {
  if (!c.has(i) || c.shape(i) == want) return {};
  return invalid("{} is {}, not {}", what, to_text(c.shape(i)), to_text(want));
}

// Keys and values, the cache and what each sequence has of it.
Result<void> read_cache(const Context& c, Grouped& g) {
  if (c.has(kPastKey) != c.has(kPastValue))
    return invalid("past_key and past_value belong together");
  if (!g.packed) {
    const Shape added = {g.batch, g.tokens, g.kv_heads * g.size};
    TESSERA_DO(expect_shape(c, kKey, "key", added));
    TESSERA_DO(expect_shape(c, kValue, "value", added));
  }
  if (elements(c.shape(kLengths)) != g.batch)
    return invalid("seqlens_k is {} for a batch of {}", to_text(c.shape(kLengths)), g.batch);
  TESSERA_TRY(const HostTensor* total, c.constant(kTotal, "total_sequence_length"));
  if (total->size() != 1 || !is_int(total->dtype()))
    return invalid("total_sequence_length is {}", to_text(total->shape()));
  g.total = total->get_int(0);
  const std::int64_t past = c.has(kPastKey) && c.rank(kPastKey) == 4 ? c.shape(kPastKey)[2] : 0;
  const Shape cache = {g.batch, g.kv_heads, past, g.size};
  TESSERA_DO(expect_shape(c, kPastKey, "past_key", cache));
  TESSERA_DO(expect_shape(c, kPastValue, "past_value", cache));
  if (g.total < g.tokens || g.total > past + g.tokens)
    return invalid("total_sequence_length is {} for {} rows of past and {} tokens", g.total, past,
                   g.tokens);
  g.rows = std::max(past, g.total);
  return {};
}

// Tables and vectors that are optional.
Result<void> check_extras(const Context& c, const Grouped& g) {
  if (c.has(kQueryNorm) != c.has(kKeyNorm))
    return invalid("q_norm_weight and k_norm_weight belong together");
  TESSERA_DO(expect_shape(c, kQueryNorm, "q_norm_weight", {g.size}));
  TESSERA_DO(expect_shape(c, kKeyNorm, "k_norm_weight", {g.size}));
  TESSERA_DO(expect_shape(c, kSink, "head_sink", {g.heads}));
  if (c.has(kBias)) {
    const Shape bias = c.shape(kBias);
    const bool fits = bias.size() == 4 && (bias[0] == 1 || bias[0] == g.batch) &&
                      (bias[1] == 1 || bias[1] == g.heads) && bias[2] == g.tokens &&
                      bias[3] == g.total;
    if (!fits) return invalid("attention_bias is {}", to_text(bias));
  }
  if (!g.rotary) return {};
  if (!c.has(kCosine) || !c.has(kSine)) return invalid("do_rotary needs cos_cache and sin_cache");
  const Shape table = c.shape(kCosine);
  if (table.size() != 2 || table[1] < 1 || 2 * table[1] > g.size || table[0] < g.total)
    return invalid("cos_cache {} for {} positions of {} elements", to_text(table), g.total, g.size);
  TESSERA_DO(expect_shape(c, kSine, "sin_cache", table));
  return expect_shape(c, kPositions, "position_ids", {g.batch, g.tokens});
}

Result<Grouped> read_grouped(const Context& c) {
  Grouped g;
  TESSERA_TRY(g.heads, c.integer("num_heads"));
  TESSERA_TRY(g.kv_heads, c.integer("kv_num_heads"));
  if (g.heads < 1 || g.kv_heads < 1 || g.heads % g.kv_heads != 0)
    return invalid("{} heads of queries for {} heads of keys", g.heads, g.kv_heads);
  if (c.has(kKey) != c.has(kValue)) return invalid("key and value belong together");
  for (const std::size_t i : {kLengths, kTotal}) {
    if (!c.has(i)) return invalid("input {} is missing", i);
  }
  g.packed = !c.has(kKey);
  if (c.rank(kQuery) != 3) return invalid("query must have rank 3");
  const Shape query = c.shape(kQuery);
  if (g.heads > query[2]) return invalid("query of width {} for {} heads", query[2], g.heads);
  const std::int64_t parts = g.heads + (g.packed ? 2 * g.kv_heads : 0);
  if (query[2] % parts != 0 || query[2] == 0)
    return invalid("query of width {} for {} heads", query[2], parts);
  g.batch = query[0];
  g.tokens = query[1];
  g.size = query[2] / parts;
  TESSERA_DO(read_group_options(c, g));
  TESSERA_DO(read_cache(c, g));
  TESSERA_DO(check_extras(c, g));
  if (c.has(kKeyScale) || c.has(kValueScale))
    return make_error(ErrorCode::kUnsupported, "a cache of few bits (k_scale, v_scale)");
  return g;
}

// Rows of the cache before the new ones: i64 [batch], or [1] where it is the same everywhere.
// Lengths that the cache cannot have are taken as the nearest ones that it can.
Term row_offsets(Formula& f, const Grouped& g) {
  if (g.first()) return counting(f, 1);
  const Term lengths = f.reshape(f.cast(f.in(kLengths), DType::kI64), {g.batch});
  const auto most = static_cast<double>(g.total - g.tokens);
  return call("max", call("min", lengths + static_cast<double>(1 - g.tokens), most), 0);
}

// Heads [batch, heads, tokens, size] of x, with the norm of input `norm` and rotated.
class Projections {
 public:
  Projections(Formula& f, Context& c, const Grouped& g, Term offsets) : f_(f), c_(c), g_(g) {
    if (!g.rotary || f.failed()) return;
    const auto lead = static_cast<std::int64_t>(f.shape(offsets).empty() ? 1 : f.shape(offsets)[0]);
    const bool given = c.has(kPositions), empty = g.batch == 0 || g.tokens == 0;
    // Of the positions of a first prompt, the first one says where every sequence begins.
    const Term positions =
        given && (empty || !g.first())
            ? f.in(kPositions)
            : (given ? first_position(f) : f.reshape(offsets, {lead, 1})) + counting(f, g.tokens);
    cosine_ = table(kCosine, positions);
    sine_ = table(kSine, positions);
  }
  Term query() const { return heads(0, g_.heads, kQuery, kQueryNorm); }
  Term key() const { return heads(g_.heads, g_.kv_heads, kKey, kKeyNorm); }
  Term value() const { return by_head(part(g_.heads + g_.kv_heads, g_.kv_heads, kValue)); }

 private:
  // The heads from `first` on of packed projections, or else input `i`, with an axis for them.
  Term part(std::int64_t first, std::int64_t count, std::size_t i) const {
    Term x = f_.in(g_.packed ? kQuery : i);
    if (g_.packed) x = slice(f_, x, 2, first * g_.size, count * g_.size);
    return f_.reshape(x, {g_.batch, g_.tokens, count, g_.size});
  }
  Term heads(std::int64_t first, std::int64_t count, std::size_t i, std::size_t norm) const {
    Term x = part(first, count, i);
    if (c_.has(norm)) {
      x = f_.op("rmsnorm", {x, f_.in(norm)}, {{"axis", std::int64_t{3}}, {"epsilon", g_.epsilon}});
    }
    if (g_.rotary) x = rotate(f_, x, cosine_, sine_, g_.interleaved);
    return by_head(x);
  }
  Term by_head(Term x) const { return transpose(f_, x, {0, 2, 1, 3}); }
  static Term first_position(Formula& f) {
    const Term all = f.cast(f.in(kPositions), DType::kI64);
    return slice(f, slice(f, all, 0, 0, 1), 1, 0, 1);
  }
  // Rows of a table as [batch, tokens, 1, half].
  Term table(std::size_t i, Term positions) const {
    const Term rows = f_.op("gather", {f_.in(i), positions}, {{"axis", std::int64_t{0}}});
    if (f_.failed()) return rows;
    const Shape s = f_.shape(rows);
    return f_.reshape(rows, {s[0], s[1], 1, s[2]});
  }

  Formula& f_;
  Context& c_;
  const Grouped& g_;
  Term cosine_, sine_;
};

// The cache with the new rows written where each sequence ends.
Term appended(Formula& f, Context& c, const Grouped& g, std::size_t past, Term added,
              Term offsets) {
  if (f.failed() || g.rows == g.tokens) return added;
  Term cache = f.in(past);
  const std::int64_t old = c.shape(past)[2];
  if (g.first()) return concat(f, {added, slice(f, cache, 2, g.tokens, old - g.tokens)}, 2);
  if (old < g.rows) {
    const Shape zero(4, 0);
    Shape after = zero;
    after[2] = g.rows - old;
    cache = f.op("pad", {cache, f.number(c.dtype(past), 0)},
                 {{"mode", std::string("constant")}, {"before", zero}, {"after", after}});
  }
  return f.op("cache_update", {cache, added, offsets},
              {{"axis", std::int64_t{2}}, {"circular", std::int64_t{0}}});
}

// Scores of hidden keys become minus infinity. Every query sees itself.
Term hide_keys(Formula& f, const Grouped& g, Term scores, Term offsets) {
  if (f.failed()) return scores;
  const std::int64_t lead = f.shape(offsets)[0];
  const Term start = f.reshape(offsets, {lead, 1, 1, 1});
  if (!g.causal) {
    if (g.first()) return scores;
    const Term end = start + static_cast<double>(g.tokens);
    return where(call("lt", counting(f, g.total), end), scores, kHidden);
  }
  const Term key = key_positions(f, g.total), query = query_positions(f, start, g.tokens);
  scores = where(call("le", key, query), scores, kHidden);
  if (g.window < 0 || g.window >= g.total) return scores;
  return where(call("lt", query - static_cast<double>(g.window), key), scores, kHidden);
}

// Softmax over the keys. With a sink, each head has a score of its own that no value belongs to.
Term shares(Formula& f, Context& c, const Grouped& g, Term scores) {
  const auto softmax = [&](Term x) { return f.op("softmax", {x}, {{"axis", std::int64_t{3}}}); };
  if (!g.smooth || f.failed()) return softmax(scores);
  const DType t = f.dtype(scores);
  const Term sink = c.has(kSink) ? f.reshape(f.cast(f.in(kSink), t), {1, g.heads, 1, 1})
                                 : f.reshape(f.number(t, 0), {1, 1, 1, 1});
  const Term column = f.op("expand", {sink}, {{"shape", Shape{g.batch, g.heads, g.tokens, 1}}});
  return slice(f, softmax(concat(f, {scores, column}, 3)), 3, 0, g.total);
}

Result<Values> import_group_query_attention(Context& c) {
  TESSERA_TRY(const Grouped g, read_grouped(c));
  Formula f(c);
  const Term offsets = row_offsets(f, g);
  const Projections project(f, c, g, offsets);
  const Term keys = appended(f, c, g, kPastKey, project.key(), offsets);
  const Term values = appended(f, c, g, kPastValue, project.value(), offsets);
  Term scores = per_head(f, project.query() * g.scale, slice(f, keys, 2, 0, g.total), false);
  if (g.softcap > 0) scores = call("tanh", scores / g.softcap) * g.softcap;
  if (c.has(kBias)) scores = scores + f.cast(f.in(kBias), c.dtype(kQuery));
  scores = hide_keys(f, g, scores, offsets);
  const Term weights = shares(f, c, g, scores);
  const Term y = merge_heads(f, per_head(f, weights, slice(f, values, 2, 0, g.total), true));
  Term shown = weights;
  if (g.shown == 1) shown = where(call("eq", scores, kHidden), 0, scores);
  return f.result({y, keys, values, shown});
}

}  // namespace

std::vector<OnnxOp> group_query_attention_rows() {
  return {{"GroupQueryAttention", 1, 1, 16, import_group_query_attention, kMicrosoft}};
}

}  // namespace tessera::onnx
