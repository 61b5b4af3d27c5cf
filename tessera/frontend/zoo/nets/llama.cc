// One decoder block of the Llama family: RMSNorm, rotary positions, grouped-query attention with a
// causal mask, SwiGLU.
#include <cmath>

#include "tessera/frontend/zoo/attention.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kRotaryBase = 10000;

Value rms_norm(ModelBuilder& b, const Value& x, const std::string& name) {
  b.scope(name);
  const Value squared = b.node("Pow", {x, b.scalar(2)}, x.shape);
  const Value mean = add(b, reduce_mean(b, squared, {-1}, true), b.scalar(kEpsilon));
  const Value root = b.node("Sqrt", {mean}, mean.shape);
  const Value inverse = b.node("Reciprocal", {root}, root.shape);
  Value y = mul(b, norm_scale(b, name + ".weight", x.shape.back()), mul(b, x, inverse));
  y.moments = {.var = 1.02};
  return y;
}

struct Rotary {
  Value cosine, sine;  // [1, 1, seq, d]
};

Rotary rotary_table(ModelBuilder& b, std::int64_t seq, std::int64_t d) {
  HostTensor cosine(b.dtype(), {1, 1, seq, d}), sine(b.dtype(), {1, 1, seq, d});
  for (std::int64_t i = 0; i < seq; ++i) {
    for (std::int64_t j = 0; j < d; ++j) {
      const double exponent = static_cast<double>(2 * (j % (d / 2))) / static_cast<double>(d);
      const double angle = static_cast<double>(i) / std::pow(kRotaryBase, exponent);
      cosine.set_float(i * d + j, std::cos(angle));
      sine.set_float(i * d + j, std::sin(angle));
    }
  }
  return {b.initializer("rotary.cos", std::move(cosine)),
          b.initializer("rotary.sin", std::move(sine))};
}

// x * cos + concat(-second half, first half) * sin
Value rotate(ModelBuilder& b, const Value& x, const Rotary& rotary) {
  const std::int64_t d = x.dim(3);
  const Value first = slice(b, x, 3, 0, d / 2);
  const Value second = slice(b, x, 3, d / 2, d);
  const Value negative = b.node("Neg", {second}, second.shape, {}, second.moments);
  const Value turned = concat(b, {negative, first}, 3);
  Value y = add(b, mul(b, x, rotary.cosine), mul(b, turned, rotary.sine));
  y.moments = x.moments;
  return y;
}

// Each key or value head serves `times` query heads: Unsqueeze, Expand, Reshape.
Value repeat_heads(ModelBuilder& b, const Value& x, std::int64_t times) {
  if (times == 1) return x;
  const Shape wide = {x.dim(0), x.dim(1), times, x.dim(2), x.dim(3)};
  const Value expanded = b.node("Expand", {unsqueeze(b, x, 2), b.ints(wide)}, wide, {}, x.moments);
  return reshape(b, expanded, {x.dim(0), x.dim(1) * times, x.dim(2), x.dim(3)});
}

Value causal_mask(ModelBuilder& b, std::int64_t seq) {
  HostTensor mask(b.dtype(), {1, 1, seq, seq});
  for (std::int64_t i = 0; i < seq; ++i) {
    for (std::int64_t j = i + 1; j < seq; ++j) mask.set_float(i * seq + j, lowest(b));
  }
  Value made = b.initializer("causal_mask", std::move(mask));
  made.moments = {.mean = 0, .var = 0};
  return made;
}

Value attention(ModelBuilder& b, const Settings& s, const Value& x) {
  const std::int64_t heads = s.at("heads"), kv_heads = s.at("kv_heads");
  const std::int64_t d = x.dim(2) / heads, seq = s.at("seq");
  const Value query = dense(b, x, "self_attn.q_proj", heads * d, false);
  const Value key = dense(b, x, "self_attn.k_proj", kv_heads * d, false);
  const Value value = dense(b, x, "self_attn.v_proj", kv_heads * d, false);
  const Rotary rotary = rotary_table(b, seq, d);
  b.scope("self_attn");
  const Value q = rotate(b, split_heads(b, query, heads), rotary);
  const Value k =
      repeat_heads(b, rotate(b, split_heads(b, key, kv_heads), rotary), heads / kv_heads);
  const Value v = repeat_heads(b, split_heads(b, value, kv_heads), heads / kv_heads);
  const Value scores = attention_scores(b, q, transpose(b, k, {0, 1, 3, 2}));
  const Value y = attend(b, add(b, scores, causal_mask(b, seq)), v);
  return dense(b, merge_heads(b, y), "self_attn.o_proj", x.dim(2), false);
}

void llama_block(ModelBuilder& b, const Settings& s) {
  const std::int64_t d = head_size(b, s.at("hidden"), s.at("heads"));
  if (d % 2 != 0) b.refuse("rotary positions need an even head size, not {}", d);
  if (s.at("heads") % s.at("kv_heads") != 0) {
    b.refuse("heads={} is not a multiple of kv_heads={}", s.at("heads"), s.at("kv_heads"));
  }
  Value x = b.input("hidden_states", b.dtype(), {s.at("batch"), s.at("seq"), s.at("hidden")});
  if (b.failed()) return;
  x = add(b, x, attention(b, s, rms_norm(b, x, "input_layernorm")));
  const Value y = rms_norm(b, x, "post_attention_layernorm");
  const Value gate = activate(b, dense(b, y, "mlp.gate_proj", s.at("ffn"), false), Act::kSilu);
  const Value inner = mul(b, gate, dense(b, y, "mlp.up_proj", s.at("ffn"), false));
  b.output(add(b, x, dense(b, inner, "mlp.down_proj", s.at("hidden"), false)), "output");
}

}  // namespace

std::vector<ZooEntry> llama_entries() {
  return {plain_entry(
      "llama_block", "one decoder block of a Llama model (1.1 B sizes)", llama_block,
      {{"seq", 128, "tokens", 1, 8192},
       {"hidden", 2048, "width", 1, 16384},
       {"heads", 32, "query heads", 1, 1024},
       {"kv_heads", 4, "key and value heads; as many as heads: plain attention", 1, 1024},
       {"ffn", 5632, "width of the gated layer", 1, 65536}})};
}

}  // namespace tessera::zoo
