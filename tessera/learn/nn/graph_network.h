// Networks that judge configurations of a graph: messages along edges, where neighbours of a
// segment are a matrix, so that every operator is one that Tessera compiles well. A graph's score
// is the sum of its segments'.
#pragma once

#include <string>
#include <vector>

#include "tessera/learn/nn/network.h"

namespace tessera::nn {

inline constexpr std::int64_t kGraphOpcodes = 128;  // ids are below

struct GraphNetworkSpec {
  std::string network;                           // of graph_network_table()
  Hyper hyper;                                   // complete
  std::int64_t columns = 0, config_columns = 0;  // of a node; of a place, as it is encoded
  friend bool operator==(const GraphNetworkSpec&, const GraphNetworkSpec&) = default;
};

struct GraphNetworkEntry {
  const char* name;
  const char* doc;
  Hyper defaults;
};
const std::vector<GraphNetworkEntry>& graph_network_table();

// `hyper` may leave names out: defaults. kInvalidArgument for unknown names and useless values.
//   hidden, layers       width and depth
//   early                1: configurations are joined before the messages; 0: behind them
//   both                 graphsage, 1: messages from users too; 0: from sources only
//   residual             1: layers add to what they read
//   compare              1: layers compare the configurations of a batch with each other
//   hops, segment        how the graph is cut (graphset/segments.h)
//   estimate             1: the network corrects what is known of a configuration's time
//   places               weights of the so many places of one graph; 0: of operations instead
Result<GraphNetworkSpec> make_graph_spec(const std::string& network, const Hyper& hyper,
                                         std::int64_t columns, std::int64_t config_columns);

struct GraphShape {
  std::int64_t configs = 1, nodes = 1, places = 1;
};

// Inputs before the parameters, those that the network reads, f32, 0 where padded:
//   nodes [nodes, columns]            opcodes [nodes, kGraphOpcodes], 1 at the id
//   configs [places, configs, config_columns]
//   place [nodes, places]             1 where a place is the node's
//   place_opcodes [places, kGraphOpcodes]
//   place_ids [places, hyper places]  1 at the place's number in the graph
//   estimate [configs]                how much faster it is expected to be than the first
//   mask [1, nodes]                   1 for real nodes
//   sources, users [nodes, nodes]     rows: the mean over a node's sources, or users
//   symmetric [nodes, nodes]          D^-1/2 (A + A' + 1) D^-1/2
//   linked [nodes, nodes]             0 for neighbours and itself, -1e9 elsewhere
// Output: "score" [configs], higher is faster.
Result<Network> build_graph_network(const GraphNetworkSpec& spec, const GraphShape& shape);

// What a segment of so many nodes and places is padded to: few instances, little waste.
GraphShape padded_graph_shape(const GraphShape& shape);

}  // namespace tessera::nn
