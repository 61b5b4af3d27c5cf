// Perceptron for documentation and tests.
#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

Value layer(ModelBuilder& b, const Settings& s, const Value& x, const std::string& name,
            std::int64_t out) {
  return s.word("quant") == "dynamic" ? linear_dynamic(b, x, name, out)
                                      : classifier(b, x, name, out);
}

void mlp(ModelBuilder& b, const Settings& s) {
  Value x = b.input("input", b.dtype(), {s.at("batch"), s.at("inputs")});
  if (s.word("quant") != "none" && b.dtype() != DType::kF32) {
    b.refuse("quant={} needs dtype=f32", s.word("quant"));
  }
  if (s.word("quant") == "qdq") x = quantize(b, x);
  for (int i = 0; i < s.at("layers"); ++i) {
    const Value y = layer(b, s, x, fmt::format("fc{}", i + 1), s.at("hidden"));
    x = quantize_like(b, relu(b, y), y);
  }
  b.output(layer(b, s, x, fmt::format("fc{}", s.at("layers") + 1), s.at("classes")), "output");
}

}  // namespace

std::vector<ZooEntry> mlp_entries() {
  ZooEntry entry = plain_entry("mlp", "linear layers and ReLU", mlp,
                               {{"inputs", 784, "length of the input"},
                                {"hidden", 256, "outputs of a hidden layer"},
                                {"layers", 2, "hidden layers", 0, 256},
                                {"classes", 10, "outputs"}});
  entry.words.push_back({"quant",
                         {"none", "qdq", "dynamic"},
                         "int8: qdq with fixed ranges, dynamic with those of each run"});
  return {entry};
}

}  // namespace tessera::zoo
