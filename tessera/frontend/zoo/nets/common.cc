#include <algorithm>

#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {

ZooEntry plain_entry(std::string name, std::string doc, Build build, std::vector<ZooParam> params) {
  params.insert(params.begin(), {"batch", 1, "samples computed together"});
  return {.name = std::move(name),
          .aliases = {},
          .doc = std::move(doc),
          .params = std::move(params),
          .words = {{"dtype", {"f32", "f16", "bf16"}, "type of weights and activations"}},
          .build = build};
}

ZooEntry image_entry(std::string name, std::string doc, Build build, std::int64_t size) {
  return plain_entry(std::move(name), std::move(doc), build,
                     {{"size", size, "height and width of the image", 1, 8192},
                      {"classes", 1000, "outputs of the classifier"}});
}

Value image_input(ModelBuilder& b, const Settings& s) {
  return b.input("input", b.dtype(), {s.at("batch"), 3, s.at("size"), s.at("size")});
}

ZooEntry with_quant(ZooEntry entry) {
  entry.words.push_back(
      {"quant", {"none", "qdq"}, "int8 weights, u8 activations between Quantize/DequantizeLinear"});
  return entry;
}

Value quantized_input(ModelBuilder& b, const Settings& s, const Value& x) {
  if (s.word("quant") == "none") return x;
  if (b.dtype() != DType::kF32) b.refuse("quant=qdq needs dtype=f32");
  return quantize(b, x);
}

ZooEntry with_alias(ZooEntry entry, std::string alias) {
  entry.aliases.push_back(std::move(alias));
  return entry;
}

std::int64_t make_divisible(double channels, std::int64_t divisor) {
  const std::int64_t rounded =
      static_cast<std::int64_t>(channels + static_cast<double>(divisor) / 2) / divisor * divisor;
  const std::int64_t result = std::max(divisor, rounded);
  return static_cast<double>(result) < 0.9 * channels ? result + divisor : result;
}

}  // namespace tessera::zoo
