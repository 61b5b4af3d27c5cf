// GPT-2: pre-norm decoder with learned positions, causal mask by Where, GELU by Tanh; the output
// layer is the transposed word embedding.
#include <algorithm>
#include <cmath>

#include "tessera/frontend/zoo/attention.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr std::int64_t kPositions = 1024;

// Conv1D of the original: a Gemm over all tokens with a weight [in, out].
Value conv1d(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out) {
  b.scope(name);
  const std::int64_t in = x.dim(2), tokens = x.dim(0) * x.dim(1);
  const double gain =
      1 / std::sqrt(static_cast<double>(in) * std::max(1e-6, x.moments.mean_square()));
  const Value w = b.weight(name + ".weight", {in, out}, spread(gain));
  const Value bias = b.weight(name + ".bias", {out}, {.half_width = 0.1});
  const Value flat = reshape(b, x, {tokens, in});
  const Value y = b.node("Gemm", {flat, w, bias}, {tokens, out},
                         {attr("alpha", 1.0), attr("beta", 1.0)}, {.var = 1});
  return reshape(b, y, {x.dim(0), x.dim(1), out});
}

// Lower triangle, [1, 1, seq, seq].
Value causal_mask(ModelBuilder& b, std::int64_t seq) {
  HostTensor mask(DType::kBool, {1, 1, seq, seq});
  for (std::int64_t i = 0; i < seq; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) mask.set_int(i * seq + j, 1);
  }
  return b.initializer("attn.bias", std::move(mask));
}

Value attention(ModelBuilder& b, const Value& x, const std::string& name, const Value& mask,
                std::int64_t heads) {
  const std::int64_t width = x.dim(2);
  const std::vector<Value> qkv = split(b, conv1d(b, x, name + "c_attn", 3 * width), 3, 2);
  const Value query = split_heads(b, qkv[0], heads);
  const Value key = split_heads_transposed(b, qkv[1], heads);
  const Value value = split_heads(b, qkv[2], heads);
  const Value scores = attention_scores(b, query, key);
  // The type of Where is that of its second input.
  const Value masked = b.node("Where", {mask, scores, b.scalar(lowest(b))}, scores.shape, {},
                              scores.moments, b.dtype());
  return conv1d(b, merge_heads(b, attend(b, masked, value)), name + "c_proj", width);
}

void gpt2(ModelBuilder& b, const Settings& s) {
  const std::int64_t seq = s.at("seq"), width = s.at("hidden");
  head_size(b, width, s.at("heads"));
  const Value ids = b.input("input_ids", DType::kI64, {s.at("batch"), seq});
  const Value words = b.weight("wte.weight", {s.at("vocab"), width}, spread(0.05));
  const Value places = b.weight("wpe.weight", {kPositions, width}, spread(0.02));
  const Value mask = causal_mask(b, seq);
  b.scope("");
  Value x = add(b, gather(b, words, ids, 0), slice(b, places, 0, 0, seq));
  for (int i = 0; i < s.at("layers"); ++i) {
    const std::string name = fmt::format("h.{}.", i);
    const Value attended = attention(b, layer_norm(b, x, name + "ln_1", kEpsilon), name + "attn.",
                                     mask, s.at("heads"));
    x = add(b, attended, x);
    Value y = conv1d(b, layer_norm(b, x, name + "ln_2", kEpsilon), name + "mlp.c_fc", 4 * width);
    y = conv1d(b, gelu_tanh(b, y), name + "mlp.c_proj", width);
    x = add(b, x, y);
  }
  x = layer_norm(b, x, "ln_f", kEpsilon);
  b.scope("lm_head");
  b.output(matmul(b, x, transpose(b, words, {1, 0}), {.var = 2}), "logits");
}

}  // namespace

std::vector<ZooEntry> gpt2_entries() {
  return {plain_entry("gpt2", "GPT-2 small with logits for every token", gpt2,
                      {{"seq", 128, "tokens", 1, kPositions},
                       {"layers", 12, "decoder layers", 1, 256},
                       {"hidden", 768, "width", 1, 16384},
                       {"heads", 12, "attention heads", 1, 1024},
                       {"vocab", 50257, "tokens of the vocabulary", 1, 1 << 20}})};
}

}  // namespace tessera::zoo
