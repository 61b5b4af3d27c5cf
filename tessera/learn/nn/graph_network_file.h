// A trained network of graphs as a file.
#pragma once

#include "tessera/learn/nn/graph_network.h"
#include "tessera/learn/nn/network_file.h"

namespace tessera::nn {

struct TrainedGraphNetwork {
  GraphNetworkSpec spec;
  std::map<std::string, HostTensor> weights;  // by parameter name, f32, complete
  std::string kind;                           // of the graphs: "layout" or "tile"
  // Of nodes: of sign(x) log(1 + |x|). Of configurations: the same for tiles; layouts are encoded
  // by what each number is and have none.
  Normalizer nodes, configs;
  double share = 1;  // of the configurations that were learned from (graphset/ranking.h)
  std::map<std::string, std::string> notes;
};

// The same parameters for every shape.
GraphShape smallest_shape();

// As save_network and load_network (network_file.h).
Result<void> save_graph_network(const TrainedGraphNetwork& network, const std::string& path);
Result<TrainedGraphNetwork> load_graph_network(const std::string& path);

}  // namespace tessera::nn
