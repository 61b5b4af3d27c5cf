// Vision transformers: patches of 16x16 as tokens, a class token, pre-norm encoder layers.
#include "tessera/frontend/zoo/attention.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr std::int64_t kPatch = 16;

// Query, key and value by one linear layer, then Reshape, Transpose and Gather.
Value attention(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t heads) {
  const std::int64_t width = x.dim(2), d = width / heads;
  const Value qkv = dense(b, x, name + ".in_proj", 3 * width);
  b.scope(name);
  const Value parts =
      transpose(b, reshape(b, qkv, {x.dim(0), x.dim(1), 3, heads, d}), {2, 0, 3, 1, 4});
  const Value query = gather(b, parts, b.int_scalar(0), 0);
  const Value key = gather(b, parts, b.int_scalar(1), 0);
  const Value value = gather(b, parts, b.int_scalar(2), 0);
  const Value scores = attention_scores(b, query, transpose(b, key, {0, 1, 3, 2}));
  return dense(b, merge_heads(b, attend(b, scores, value)), name + ".out_proj", width);
}

Value tokens(ModelBuilder& b, const Settings& s) {
  const std::int64_t width = s.at("hidden"), batch = s.at("batch");
  if (s.at("size") % kPatch != 0) b.refuse("size={} is not a multiple of 16", s.at("size"));
  const Value image = image_input(b, s);
  const Value patches = conv(b, image, "conv_proj", {width, square(kPatch, kPatch), 1, true});
  const std::int64_t count = patches.dim(2) * patches.dim(3);
  b.scope("");
  const Value flat = transpose(b, reshape(b, patches, {batch, width, count}), {0, 2, 1});
  Value first = b.weight("class_token", {1, 1, width}, spread(0.5));
  if (batch > 1) {
    const Shape all = {batch, 1, width};
    first = b.node("Expand", {first, b.ints(all)}, all, {}, first.moments);
  }
  const Value x = concat(b, {first, flat}, 1);
  const Value places = b.weight("encoder.pos_embedding", {1, count + 1, width}, spread(0.1));
  return add(b, x, places);
}

void vit(ModelBuilder& b, const Settings& s) {
  head_size(b, s.at("hidden"), s.at("heads"));
  Value x = tokens(b, s);
  for (int i = 0; i < s.at("layers"); ++i) {
    const std::string name = fmt::format("encoder.layers.encoder_layer_{}.", i);
    const Value y = layer_norm(b, x, name + "ln_1", kEpsilon);
    x = add(b, attention(b, y, name + "self_attention", s.at("heads")), x);
    Value z = layer_norm(b, x, name + "ln_2", kEpsilon);
    z = gelu_erf(b, dense(b, z, name + "mlp.0", s.at("ffn")));
    x = add(b, x, dense(b, z, name + "mlp.3", s.at("hidden")));
  }
  x = layer_norm(b, x, "encoder.ln", kEpsilon);
  b.scope("");
  const Value first = gather(b, x, b.int_scalar(0), 1);
  b.output(linear(b, first, "heads.head", s.at("classes")), "output");
}

ZooEntry row(std::string name, std::string doc, std::int64_t hidden, std::int64_t heads) {
  ZooEntry entry = image_entry(std::move(name), std::move(doc), vit);
  entry.params.insert(entry.params.end(), {{"layers", 12, "encoder layers", 1, 256},
                                           {"hidden", hidden, "width", 1, 16384},
                                           {"ffn", 4 * hidden, "width of the inner layer"},
                                           {"heads", heads, "attention heads", 1, 1024}});
  return entry;
}

}  // namespace

std::vector<ZooEntry> vit_entries() {
  return {row("vit_b_16", "ViT base, patches of 16", 768, 12),
          with_alias(row("vit_tiny", "ViT tiny, patches of 16", 192, 3), "vit_ti_16"),
          row("vit_s_16", "ViT small, patches of 16", 384, 6)};
}

}  // namespace tessera::zoo
