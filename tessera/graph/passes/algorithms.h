// The choices at the level of the graph that tuning makes by measuring: how a convolution is
// computed, and whether contractions of one input share a kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/graph/passes/passes.h"

namespace tessera::graph {

// The key of PassOptions::algorithms for merge_contractions, and its two values.
inline constexpr const char* kContractions = "contractions";
inline constexpr const char* kSeparate = "separate";
inline constexpr const char* kMerged = "merged";

// Nodes of one signature always share an algorithm.
struct AlgorithmChoice {
  std::string signature;             // "conv n1 h56 w56 ci64 co64 k3x3 s1 p1,1,1,1 g1"
  std::vector<std::string> options;  // "direct", "winograd2", "winograd4", "winograd6"
  std::string preferred;             // what select_algorithms takes by itself
  int count = 0;                     // nodes
};

// What select_algorithms takes by itself for a dense 3x3 convolution of f32 from `ci` to `co`
// channels with results [n, h, w, co].
const std::string& preferred_convolution(std::int64_t ci, std::int64_t co, const Shape& out,
                                         const PassOptions& options);

// Of a graph that select_algorithms has not rewritten (PassOptions::skip), in order of first use.
std::vector<AlgorithmChoice> algorithm_choices(const Graph& graph, const PassOptions& options);

// The signature of a node that has a choice, before select_algorithms and after it.
std::optional<std::string> algorithm_signature(const Graph& graph, const Node& node);

}  // namespace tessera::graph
