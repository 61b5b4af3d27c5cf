// A program whose parts can be configured, with the times that configurations took.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/support/dtype.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::graphset {

using tessera::to_text;  // of shapes and types, beside the one below

enum class Kind : std::uint8_t {
  kLayout,  // some nodes have a configuration each; the program is a whole network
  kTile,    // the graph has one configuration; the program is one kernel
};
const char* to_text(Kind kind);  // "layout", "tile"

struct Edge {
  std::int32_t user = 0, source = 0;  // the user reads what the source computes
  friend auto operator<=>(const Edge&, const Edge&) = default;
};

struct ConfigGraph {
  std::string name;
  Kind kind = Kind::kLayout;
  HostTensor node_feat;              // f32 [nodes, columns]
  std::vector<std::uint8_t> opcode;  // one a node
  std::vector<Edge> edges;
  std::vector<std::int32_t> config_nodes;   // ascending; empty for kTile
  std::vector<std::int64_t> splits;         // 0, ends of major parts, nodes; empty for kTile
  HostTensor configs;                       // f32 [configurations, places, columns]; kTile: 1 place
  std::vector<std::int64_t> runtime_ns;     // one a configuration; all 0: not known
  std::vector<std::int64_t> normalizer_ns;  // kTile: of the default on the same machine, at least 1
  // What the parts of a configuration are expected to take together, at least 1; empty: nobody
  // said.
  std::vector<std::int64_t> estimate_ns;

  std::int64_t nodes() const { return static_cast<std::int64_t>(opcode.size()); }
  std::int64_t columns() const { return node_feat.shape()[1]; }
  std::int64_t places() const { return configs.shape()[1]; }
  std::int64_t config_columns() const { return configs.shape()[2]; }
  std::int64_t size() const { return configs.shape()[0]; }
  bool labelled() const;  // some time is known

  // What configurations are ordered by: nanoseconds, or multiples of the default's time.
  double cost(std::int64_t config) const;
  const float* config(std::int64_t i) const {
    return configs.as<float>() + i * places() * config_columns();
  }
};

// kInvalidArgument: shapes that do not fit each other, indices outside, values that are not finite.
// What every reader and converter ends with.
Result<void> check(const ConfigGraph& graph);

// The graph with only these configurations, in this order.
ConfigGraph take_configs(const ConfigGraph& graph, const std::vector<std::int64_t>& configs);

// The configurations of both behind each other. Both begin with the same configuration, and its two
// times make the others comparable. kInvalidArgument: not the same program, or another beginning.
Result<ConfigGraph> join_configs(const ConfigGraph& a, const ConfigGraph& b);

// Configurations that are equal, by their first: groups in the order of their first.
std::vector<std::vector<std::int64_t>> equal_configs(const ConfigGraph& graph);

}  // namespace tessera::graphset
