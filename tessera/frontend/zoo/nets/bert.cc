// BERT encoders with pooler, as exporters below opset 17 wrote them: LayerNorm decomposed, GELU by
// Erf, mask by Cast, Sub and Mul. Word, position and type embeddings are included.
#include "tessera/frontend/zoo/attention.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

constexpr double kEpsilon = 1e-12;
constexpr double kEmbeddingSpread = 0.05;

Value embed(ModelBuilder& b, const Settings& s, const Value& ids, const Value& types) {
  const std::int64_t hidden = s.at("hidden");
  const std::string name = "embeddings.";
  const Fill fill = spread(kEmbeddingSpread);
  const Value words = b.weight(name + "word_embeddings.weight", {s.at("vocab"), hidden}, fill);
  const Value positions = b.weight(name + "position_embeddings.weight", {512, hidden}, fill);
  const Value kinds = b.weight(name + "token_type_embeddings.weight", {2, hidden}, fill);
  b.scope("embeddings");
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < s.at("seq"); ++i) order.push_back(i);
  const Value where = unsqueeze(b, b.ints(order), 0);
  Value x = add(b, gather(b, words, ids, 0), gather(b, kinds, types, 0));
  x = add(b, x, gather(b, positions, where, 0));
  return layer_norm_decomposed(b, x, name + "LayerNorm", kEpsilon);
}

// (1 - mask) * lowest, shaped [batch, 1, 1, seq].
Value extended_mask(ModelBuilder& b, const Value& mask) {
  b.scope("");
  const Value wide = unsqueeze(b, unsqueeze(b, mask, 1), 2);
  Value m = b.node("Cast", {wide}, wide.shape, {attr("to", onnx_number(b.dtype()))}, {}, b.dtype());
  m.moments = {.mean = 1, .var = 0};
  m = mul(b, sub(b, b.scalar(1), m), b.scalar(lowest(b)));
  m.moments = {.mean = 0, .var = 0};
  return m;
}

Value layer(ModelBuilder& b, const Settings& s, const Value& x, const Value& mask, int index) {
  const std::string name = fmt::format("encoder.layer.{}.", index);
  const std::string self = name + "attention.self.";
  const std::int64_t heads = s.at("heads"), hidden = s.at("hidden");
  const Value query = dense(b, x, self + "query", hidden);
  const Value key = dense(b, x, self + "key", hidden);
  const Value value = dense(b, x, self + "value", hidden);
  b.scope(name + "attention.self");
  const Value scores =
      attention_scores(b, split_heads(b, query, heads), split_heads_transposed(b, key, heads));
  Value y = merge_heads(b, attend(b, add(b, scores, mask), split_heads(b, value, heads)));
  y = add(b, dense(b, y, name + "attention.output.dense", hidden), x);
  y = layer_norm_decomposed(b, y, name + "attention.output.LayerNorm", kEpsilon);
  Value z = gelu_erf(b, dense(b, y, name + "intermediate.dense", s.at("ffn")));
  z = add(b, dense(b, z, name + "output.dense", hidden), y);
  return layer_norm_decomposed(b, z, name + "output.LayerNorm", kEpsilon);
}

void bert(ModelBuilder& b, const Settings& s) {
  head_size(b, s.at("hidden"), s.at("heads"));
  const Shape shape = {s.at("batch"), s.at("seq")};
  const Value ids = b.input("input_ids", DType::kI64, shape);
  const Value types = b.input("token_type_ids", DType::kI64, shape);
  const Value mask = extended_mask(b, b.input("attention_mask", DType::kI64, shape));
  Value x = embed(b, s, ids, types);
  for (int i = 0; i < s.at("layers"); ++i) x = layer(b, s, x, mask, i);
  b.scope("pooler");
  const Value first = gather(b, x, b.int_scalar(0), 1);
  const Value pooled = tanh(b, linear(b, first, "pooler.dense", s.at("hidden")));
  b.output(x, "last_hidden_state");
  b.output(pooled, "pooler_output");
}

ZooEntry row(std::string name, std::string doc, std::int64_t layers, std::int64_t hidden,
             std::int64_t heads) {
  return plain_entry(std::move(name), std::move(doc), bert,
                     {{"seq", 128, "tokens", 1, 512},
                      {"layers", layers, "encoder layers", 1, 256},
                      {"hidden", hidden, "width", 1, 16384},
                      {"ffn", 4 * hidden, "width between the two linear layers", 1, 65536},
                      {"heads", heads, "attention heads", 1, 1024},
                      {"vocab", 30522, "word pieces", 1, 1 << 20}});
}

}  // namespace

std::vector<ZooEntry> bert_entries() {
  return {
      row("bert_tiny", "BERT with 6 layers of 512 (as in TenSet)", 6, 512, 8),
      row("bert_mini", "BERT with 4 layers of 256", 4, 256, 4),
      row("bert_small", "BERT with 4 layers of 512", 4, 512, 8),
      row("bert_medium", "BERT with 12 layers of 1024 (as in TenSet)", 12, 1024, 16),
      row("bert_base", "BERT base, uncased", 12, 768, 12),
      row("bert_large", "BERT large, uncased", 24, 1024, 16),
  };
}

}  // namespace tessera::zoo
