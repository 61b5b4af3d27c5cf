// LSTM language model: embedding, LSTM layers, a linear layer over the vocabulary.
#include <cmath>

#include "tessera/frontend/zoo/layers.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

// One LSTM node over [seq, batch, features] with zero initial state.
Value lstm(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t hidden) {
  b.scope(name);
  const std::int64_t in = x.dim(2);
  const double gain = 1 / std::sqrt(static_cast<double>(hidden));
  const Value w = b.weight(name + ".weight_ih", {1, 4 * hidden, in},
                           spread(1 / std::sqrt(static_cast<double>(in) * x.moments.var)));
  const Value r = b.weight(name + ".weight_hh", {1, 4 * hidden, hidden}, spread(gain));
  const Value bias = b.weight(name + ".bias", {1, 8 * hidden}, {.half_width = 0.1});
  const Value y = b.node("LSTM", {x, w, r, bias}, {x.dim(0), 1, x.dim(1), hidden},
                         {attr("hidden_size", hidden)}, {.var = 0.1, .low = -1, .high = 1});
  return b.node("Squeeze", {y, b.ints({1})}, {x.dim(0), x.dim(1), hidden}, {}, y.moments);
}

void lstm_lm(ModelBuilder& b, const Settings& s) {
  const Value ids = b.input("input_ids", DType::kI64, {s.at("seq"), s.at("batch")});
  const std::int64_t hidden = s.at("hidden");
  const Value table = b.weight("encoder.weight", {s.at("vocab"), hidden}, spread(0.5));
  b.scope("encoder");
  Value x = gather(b, table, ids, 0);
  x.dtype = b.dtype();
  for (int i = 0; i < s.at("layers"); ++i) x = lstm(b, x, fmt::format("rnn.l{}", i), hidden);
  b.output(dense(b, x, "decoder", s.at("vocab")), "logits");
}

}  // namespace

std::vector<ZooEntry> lstm_entries() {
  return {plain_entry("lstm_lm", "LSTM language model: 2 layers of 650 units", lstm_lm,
                      {{"seq", 35, "tokens", 1, 4096},
                       {"layers", 2, "LSTM layers", 1, 64},
                       {"hidden", 650, "units of a layer and of the embedding", 1, 16384},
                       {"vocab", 10000, "words", 1, 1 << 20}})};
}

}  // namespace tessera::zoo
