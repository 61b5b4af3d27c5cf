// A transformer over the schedule steps as they are applied: reads the steps only, so that a
// candidate is scored without being lowered.
#include "tessera/learn/nn/blocks.h"
#include "tessera/learn/nn/networks/networks.h"

namespace tessera::nn {
namespace {

ValueId encode(NetworkBuilder& b, const Inputs& inputs, const Hyper& hyper) {
  const std::int64_t width = hyper.at("hidden"), most = hyper.at("max_rows");
  if (b.rows() > most) b.refuse("{} rows, but the network has max_rows={}", b.rows(), most);
  const ValueId places = b.parameter("positions", {most, width}, Init::kNormal, width);
  const ValueId x = b.by_row(embed_rows(b, inputs, width, "embedding"));
  const ValueId y = b.add(x, b.slice(places, 0, 0, b.rows()));
  const ValueId z = transformer(b, inputs, b.flat(y),
                                {.layers = hyper.at("layers"),
                                 .ffn = hyper.at("ffn"),
                                 .attention = {.heads = hyper.at("heads")}});
  return mean_rows(b, inputs, z);
}

}  // namespace

NetworkEntry sequence_network() {
  return {"sequence",
          "transformer layers over the schedule steps, then their mean",
          Rows::kStep,
          {{"hidden", 128}, {"layers", 2}, {"heads", 4}, {"ffn", 256}, {"max_rows", 128}},
          encode};
}

}  // namespace tessera::nn
