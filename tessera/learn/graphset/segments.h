// A graph cut into parts that networks read one by one.
#pragma once

#include "tessera/learn/graphset/config_graph.h"

namespace tessera::graphset {

// Some nodes of a graph in their order, at least one of them configured.
struct Segment {
  std::vector<std::int32_t> nodes;   // of the graph
  std::vector<std::int32_t> places;  // of the configurations; kTile: the only one
  std::vector<Edge> edges;           // by position in `nodes`, sorted
  // Position in `nodes` of each of `places`; empty for kTile, whose configuration is every node's.
  std::vector<std::int32_t> at;
};

struct CutOptions {
  // Nodes within this many edges of a configurable one stay; -1: all. Where a path leads through
  // nodes that do not stay, its ends are joined, so that 0 keeps who feeds whom. kTile: all stay.
  std::int64_t hops = 1;
  std::int64_t nodes = 512;  // of a segment, at most
};

// Segments without a configurable node are left out: they say the same of every configuration.
// Edges between segments are lost.
std::vector<Segment> cut(const ConfigGraph& graph, const CutOptions& options);

}  // namespace tessera::graphset
