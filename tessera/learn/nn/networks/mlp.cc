// TenSet's multi-layer perceptron: rows are encoded one by one and added.
#include "tessera/learn/nn/blocks.h"
#include "tessera/learn/nn/networks/networks.h"

namespace tessera::nn {
namespace {

ValueId encode(NetworkBuilder& b, const Inputs& inputs, const Hyper& hyper) {
  return sum_rows(b, inputs, encode_rows(b, inputs, hyper.at("hidden"), "encoder"));
}

}  // namespace

NetworkEntry mlp_network() {
  return {
      "mlp", "rows encoded one by one, then added", Rows::kStatement, {{"hidden", 256}}, encode};
}

}  // namespace tessera::nn
