// Graphs as the numbers that networks of graphs read (nn/graph_network.h).
#pragma once

#include <span>

#include "tessera/learn/graphset/segments.h"
#include "tessera/learn/nn/graph_network_file.h"

namespace tessera::graphset {

// Numbers that one number of a layout becomes: 1 at what it is, from -1 on.
inline constexpr std::int64_t kLayoutValues = 8;

struct Encoding {
  Kind kind = Kind::kLayout;
  nn::Normalizer nodes, configs;
  std::int64_t columns = 0, config_columns = 0;  // of a node; of a place, as it is encoded
  std::int64_t places = 0;                       // of the only graph that it fits; 0: of any
};

// The encoding that fits these graphs. kInvalidArgument: they are of different kinds or columns, or
// none.
Result<Encoding> fit_encoding(const std::vector<ConfigGraph>& graphs);
Encoding encoding_of(const nn::TrainedGraphNetwork& network);

// kInvalidArgument, naming the graph: of another kind, with other columns or places, or layouts
// that name no dimension.
Result<void> check_fits(const Encoding& encoding, const ConfigGraph& graph);

// Networks that compare configurations say something else of one beside others: their scores are
// means over rounds, each in another order.
int score_rounds(const nn::GraphNetworkSpec& spec);
// Numbers below `size` as they are batched in a round: the first round has them as they are.
std::vector<std::int64_t> round_order(std::int64_t size, int round);

CutOptions cut_options(const nn::GraphNetworkSpec& spec);

// An input that does not depend on the configurations, padded to `shape`. Empty: there is none of
// that name.
std::vector<float> still_input(const std::string& name, const Encoding& encoding,
                               const ConfigGraph& graph, const Segment& segment,
                               const nn::GraphShape& shape);

// "configs" for these configurations; those missing to shape.configs are 0.
void fill_configs(const Encoding& encoding, const ConfigGraph& graph, const Segment& segment,
                  std::span<const std::int64_t> configs, const nn::GraphShape& shape, float* out);

// "estimate" for these configurations of a graph that is cut into so many segments; 0 where nobody
// said.
void fill_estimates(const ConfigGraph& graph, std::span<const std::int64_t> configs,
                    std::size_t segments, float* out);

}  // namespace tessera::graphset
