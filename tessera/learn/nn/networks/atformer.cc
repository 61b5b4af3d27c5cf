// ATFormer: statements attend to each other in transformer layers before they are added. The paper
// adds a score per statement; the vectors are added here, and the heads shared by all networks
// read the sum.
#include "tessera/learn/nn/blocks.h"
#include "tessera/learn/nn/networks/networks.h"

namespace tessera::nn {
namespace {

ValueId encode(NetworkBuilder& b, const Inputs& inputs, const Hyper& hyper) {
  const bool masked = hyper.at("masked") != 0;
  ValueId x = encode_rows(b, inputs, hyper.at("hidden"), "encoder");
  if (!masked) x = b.mul(x, row_mask(b, inputs));  // padding is attended to, as rows of zeros
  x = transformer(b, inputs, x,
                  {.layers = hyper.at("layers"),
                   .ffn = hyper.at("ffn"),
                   .attention = {.heads = hyper.at("heads"), .masked = masked}});
  return sum_rows(b, inputs, x);
}

}  // namespace

NetworkEntry atformer_network() {
  return {"atformer",
          "transformer layers over the statements, then their sum",
          Rows::kStatement,
          {{"hidden", 512}, {"layers", 2}, {"heads", 4}, {"ffn", 512}, {"masked", 1}},
          encode};
}

}  // namespace tessera::nn
