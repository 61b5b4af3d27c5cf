// LinearAttention, whose memory is a matrix that every token updates, and CausalConvWithState, the
// short convolution that stands before it.
#include <cmath>

#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

enum Input : std::size_t { kQuery, kKey, kValue, kPast, kDecay, kBeta };

struct Sizes {
  std::int64_t batch = 0, tokens = 0, q_heads = 0, kv_heads = 0, key = 0, value = 0;
  bool gated = false, delta = false;
  double scale = 1;

  std::int64_t shared() const { return q_heads / kv_heads; }  // heads of queries per memory
};

Result<void> read_rule(const Context& c, Sizes& s) {
  TESSERA_TRY(const std::string rule, c.word("update_rule", "gated_delta"));
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
    return invalid("update_rule '{}' is not linear, gated, delta or gated_delta", rule);
  }
  s.gated = rule.starts_with("gated");
  s.delta = rule.ends_with("delta");
  if (c.has(kDecay) != s.gated) return invalid("update_rule {} and decay do not fit", rule);
  if (c.has(kBeta) != s.delta) return invalid("update_rule {} and beta do not fit", rule);
  return {};
}

Result<Sizes> read_sizes(const Context& c) {
  Sizes s;
  TESSERA_TRY(s.q_heads, c.integer("q_num_heads"));
  TESSERA_TRY(s.kv_heads, c.integer("kv_num_heads"));
  if (s.q_heads < 1 || s.kv_heads < 1 || s.q_heads % s.kv_heads != 0) {
    return invalid("{} heads of queries for {} heads of keys", s.q_heads, s.kv_heads);
  }
  TESSERA_DO(read_rule(c, s));
  if (c.rank(kQuery) != 3 || c.rank(kKey) != 3 || c.rank(kValue) != 3) {
    return invalid("query, key and value must have rank 3");
  }
  s.batch = c.shape(kQuery)[0];
  s.tokens = c.shape(kQuery)[1];
  s.key = c.shape(kQuery)[2] / s.q_heads;
  s.value = c.shape(kValue)[2] / s.kv_heads;
  const auto expect = [&](std::size_t i, const char* what, const Shape& want) -> Result<void> {
    if (!c.has(i) || c.shape(i) == want) return {};
    return invalid("{} is {}, not {}", what, to_text(c.shape(i)), to_text(want));
  };
  TESSERA_DO(expect(kQuery, "query", {s.batch, s.tokens, s.q_heads * s.key}));
  TESSERA_DO(expect(kKey, "key", {s.batch, s.tokens, s.kv_heads * s.key}));
  TESSERA_DO(expect(kValue, "value", {s.batch, s.tokens, s.kv_heads * s.value}));
  TESSERA_DO(expect(kPast, "past_state", {s.batch, s.kv_heads, s.key, s.value}));
  // One per head, or one per head and element of the key (beta: one for all heads).
  if (s.gated && c.rank(kDecay) == 3 && c.shape(kDecay)[2] != s.kv_heads) {
    TESSERA_DO(expect(kDecay, "decay", {s.batch, s.tokens, s.kv_heads * s.key}));
  } else {
    TESSERA_DO(expect(kDecay, "decay", {s.batch, s.tokens, s.kv_heads}));
  }
  const bool one_beta = s.delta && c.rank(kBeta) == 3 && c.shape(kBeta)[2] == 1;
  TESSERA_DO(expect(kBeta, "beta", {s.batch, s.tokens, one_beta ? 1 : s.kv_heads}));
  TESSERA_TRY(s.scale, c.number("scale", 0.0));
  if (s.scale == 0) s.scale = 1 / std::sqrt(static_cast<double>(s.key));
  return s;
}

// The rows of input `i` for token t, per head: [batch, heads, the rest].
Term token(Formula& f, Term rows, std::int64_t t, std::int64_t heads) {
  const Term row = pick(f, rows, 1, t);
  if (f.failed()) return row;
  const Shape s = f.shape(row);
  return f.reshape(row, {s[0], heads, s[1] / heads});
}

Result<std::vector<ValueId>> import_linear_attention(Context& c) {
  TESSERA_TRY(const Sizes s, read_sizes(c));
  Formula f(c);
  const auto input = [&](std::size_t i) { return f.cast(f.in(i), DType::kF32); };
  const Shape memory = {s.batch, s.kv_heads, s.key, s.value};
  Term state = c.has(kPast) ? input(kPast) : f.constant(HostTensor(DType::kF32, memory));
  const Term q = input(kQuery) * s.scale, k = input(kKey), v = input(kValue);
  const Term kept = s.gated ? call("exp", input(kDecay)) : Term{};
  const Term rate = s.delta ? input(kBeta) : Term{};
  std::vector<Term> outputs;
  for (std::int64_t t = 0; t < s.tokens && !f.failed(); ++t) {
    const Term key = token(f, k, t, s.kv_heads);
    Term value = token(f, v, t, s.kv_heads);
    if (s.gated) {
      const Term factor = token(f, kept, t, s.kv_heads);
      const Shape shape = f.shape(factor);
      state = state * f.reshape(factor, {s.batch, s.kv_heads, f.failed() ? 1 : shape[2], 1});
    }
    if (s.delta) {
      const std::int64_t heads = c.shape(kBeta)[2];
      const Term recalled = contract(f, state, "bhdm", key, "bhd", "bhm");
      value = token(f, rate, t, heads) * (value - recalled);
    }
    state = state + f.reshape(key, {s.batch, s.kv_heads, s.key, 1}) *
                        f.reshape(value, {s.batch, s.kv_heads, 1, s.value});
    const Term query =
        f.reshape(token(f, q, t, s.q_heads), {s.batch, s.kv_heads, s.shared(), s.key});
    outputs.push_back(f.reshape(contract(f, query, "bhgd", state, "bhdm", "bhgm"),
                                {s.batch, 1, s.q_heads * s.value}));
  }
  const DType t = c.dtype(kQuery);
  const Term y = outputs.empty() ? f.constant(HostTensor(t, {s.batch, 0, s.q_heads * s.value}))
                                 : f.cast(concat(f, outputs, 1), t);
  return f.result({y, f.cast(state, c.has(kPast) ? c.dtype(kPast) : t)});
}

// input [batch, channels, length], weight [channels, 1, k], bias?, past_state?
Result<std::vector<ValueId>> import_causal_conv(Context& c) {
  TESSERA_TRY(const std::string activation, c.word("activation", "none"));
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return invalid("activation '{}' is not none, silu or swish", activation);
  }
  if (c.rank(0) != 3 || c.rank(1) != 3) return invalid("input and weight must have rank 3");
  const Shape x = c.shape(0), w = c.shape(1);
  const std::int64_t batch = x[0], channels = x[1], kernel = w[2];
  if (w[0] != channels || w[1] != 1 || kernel < 1) {
    return invalid("weight {} for input {}", to_text(w), to_text(x));
  }
  const Shape state = {batch, channels, kernel - 1};
  if (c.has(2) && c.shape(2) != Shape{channels}) return invalid("bias is {}", to_text(c.shape(2)));
  if (c.has(3) && c.shape(3) != state) {
    return invalid("past_state is {}, not {}", to_text(c.shape(3)), to_text(state));
  }
  Formula f(c);
  const DType t = c.dtype(0);
  Term rows = f.in(0);
  if (kernel > 1) {
    rows = concat(f, {c.has(3) ? f.in(3) : f.constant(HostTensor(t, state)), rows}, 2);
  }
  const std::vector<std::int64_t> zero = {0}, one = {1};
  Term y = f.op("conv", {f.widen(rows), f.wide(1)},
                {{"strides", one},
                 {"before", zero},
                 {"after", zero},
                 {"dilations", one},
                 {"group", channels},
                 {"layout", std::string("nchw")}});
  if (c.has(2)) y = y + f.along(f.wide(2), 1, 3);
  if (activation != "none") y = y * call("sigmoid", y);
  const Term present = slice(f, rows, 2, x[2], kernel - 1);
  return f.result({f.cast(y, t), present});
}

}  // namespace

std::vector<OnnxOp> linear_attention_rows() {
  return {
      {"CausalConvWithState", 27, 2, 4, import_causal_conv},
      {"LinearAttention", 27, 3, 6, import_linear_attention},
  };
}

}  // namespace tessera::onnx
