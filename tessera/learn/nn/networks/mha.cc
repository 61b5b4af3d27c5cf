// TenSet's multi-head attention: one attention over the encoded rows, a residual, a layer, a sum.
#include "tessera/learn/nn/blocks.h"
#include "tessera/learn/nn/networks/networks.h"

namespace tessera::nn {
namespace {

ValueId encode(NetworkBuilder& b, const Inputs& inputs, const Hyper& hyper) {
  const ValueId x = encode_rows(b, inputs, hyper.at("hidden"), "encoder");
  const AttentionOptions options = {.heads = hyper.at("heads")};
  const ValueId y = b.add(x, self_attention(b, inputs, x, options, "attention"));
  return sum_rows(b, inputs, b.linear(y, hyper.at("hidden"), "out"));
}

}  // namespace

NetworkEntry mha_network() {
  return {"mha",
          "one multi-head attention over the statements, then their sum",
          Rows::kStatement,
          {{"hidden", 256}, {"heads", 4}},
          encode};
}

}  // namespace tessera::nn
