// The rows of network_table(), one function per file.
#pragma once

#include "tessera/learn/nn/network.h"

namespace tessera::nn {

NetworkEntry atformer_network();
NetworkEntry lstm_network();
NetworkEntry mha_network();
NetworkEntry mlp_network();
NetworkEntry sequence_network();
NetworkEntry tabnet_network();
NetworkEntry treegru_network();

}  // namespace tessera::nn
