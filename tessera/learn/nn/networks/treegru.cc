// AutoTVM's context-encoded TreeGRU: states of loops are folded from the innermost outwards, then
// scattered softly into a fixed number of slots, so that programs of any shape give one vector.
#include "tessera/learn/nn/blocks.h"
#include "tessera/learn/nn/networks/networks.h"

namespace tessera::nn {
namespace {

// States of all loops, flat. Each round updates every loop from the sum of its inner loops, so
// after `depth` rounds trees of that depth are folded exactly; deeper ones are cut off below, but
// each of their loops still reaches the slots.
ValueId fold_tree(NetworkBuilder& b, const Inputs& inputs, ValueId x, std::int64_t depth) {
  const std::int64_t width = b.width(x);
  const ValueId own = b.linear(x, 3 * width, "gru.input");
  const auto part = [&](ValueId v, std::int64_t i) { return b.slice(v, 1, i * width, width); };
  const ValueId own_keep = part(own, 0), own_reset = part(own, 1), own_new = part(own, 2);
  const Linear gates = b.linear_layer("gru.gates", width, 2 * width, /*bias=*/false);
  const Linear fresh = b.linear_layer("gru.new", width, width, /*bias=*/false);
  ValueId state =
      b.mul(b.sub(b.scalar(1), b.sigmoid(own_keep)), b.tanh(own_new));  // nothing inside
  for (std::int64_t round = 1; round < depth; ++round) {
    const ValueId inner = b.flat(b.contract("bpc,bch->bph", inputs.parents, b.by_row(state)));
    const ValueId from_inner = b.apply(gates, inner);
    const ValueId keep = b.sigmoid(b.add(own_keep, part(from_inner, 0)));
    const ValueId reset = b.sigmoid(b.add(own_reset, part(from_inner, 1)));
    const ValueId now = b.tanh(b.add(own_new, b.apply(fresh, b.mul(reset, inner))));
    state = b.add(b.mul(b.sub(b.scalar(1), keep), now), b.mul(keep, inner));
  }
  return state;
}

ValueId encode(NetworkBuilder& b, const Inputs& inputs, const Hyper& hyper) {
  const std::int64_t width = hyper.at("hidden"), slots = hyper.at("slots");
  const ValueId x = b.relu(embed_rows(b, inputs, width, "embedding"));
  const ValueId h = fold_tree(b, inputs, x, hyper.at("depth"));
  const ValueId share = b.mul(b.softmax(b.linear(h, slots, "slots")), row_mask(b, inputs));
  const ValueId memory = b.contract("brm,brh->bmh", b.by_row(share), b.by_row(h));
  return b.reshape(memory, {b.batch(), slots * width});
}

}  // namespace

NetworkEntry treegru_network() {
  return {"treegru",
          "a gated unit up the tree of loops, scattered into slots",
          Rows::kLoop,
          {{"hidden", 128}, {"depth", 16}, {"slots", 8}},
          encode};
}

}  // namespace tessera::nn
