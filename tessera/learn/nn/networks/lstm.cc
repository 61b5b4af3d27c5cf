// An LSTM over the encoded rows in program order; its last state stands for the candidate. Padding
// leaves the state as it is.
#include "tessera/learn/nn/blocks.h"
#include "tessera/learn/nn/networks/networks.h"

namespace tessera::nn {
namespace {

struct State {
  ValueId hidden, cell;
};

// `gates`: [batch, 4 * width] before their functions, in the order in, forget, out, new.
State step(NetworkBuilder& b, ValueId gates, ValueId cell, std::int64_t width) {
  const auto gate = [&](std::int64_t i) { return b.slice(gates, 1, i * width, width); };
  const ValueId fresh = b.mul(b.sigmoid(gate(0)), b.tanh(gate(3)));
  const ValueId next =
      cell == graph::kNoValue ? fresh : b.add(b.mul(b.sigmoid(gate(1)), cell), fresh);
  return {b.mul(b.sigmoid(gate(2)), b.tanh(next)), next};
}

ValueId encode(NetworkBuilder& b, const Inputs& inputs, const Hyper& hyper) {
  const std::int64_t width = hyper.at("hidden");
  const ValueId x = encode_rows(b, inputs, width, "encoder");
  // What does not depend on the state is one product for all rows.
  const ValueId from_rows = b.by_row(b.linear(x, 4 * width, "lstm.input"));
  const Linear recurrent = b.linear_layer("lstm.state", width, 4 * width, /*bias=*/false);
  State state{graph::kNoValue, graph::kNoValue};
  for (std::int64_t t = 0; t < b.rows(); ++t) {
    const ValueId mask = b.slice(inputs.mask, 1, t, 1), rest = b.sub(b.scalar(1), mask);
    ValueId gates = b.reshape(b.slice(from_rows, 1, t, 1), {b.batch(), 4 * width});
    if (t > 0) gates = b.add(gates, b.apply(recurrent, state.hidden));
    const State next = step(b, gates, state.cell, width);
    const auto keep = [&](ValueId old, ValueId now) {
      if (t == 0) return b.mul(mask, now);
      return b.add(b.mul(mask, now), b.mul(rest, old));
    };
    state = {keep(state.hidden, next.hidden), keep(state.cell, next.cell)};
  }
  return state.hidden;
}

}  // namespace

NetworkEntry lstm_network() {
  return {"lstm",
          "an LSTM over the statements in program order",
          Rows::kStatement,
          {{"hidden", 256}},
          encode};
}

}  // namespace tessera::nn
