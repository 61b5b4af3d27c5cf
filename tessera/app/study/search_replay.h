// Searches for a fast configuration of a graph, replayed on those that were measured.
#pragma once

#include <span>
#include <string>

#include "tessera/learn/graphset/config_graph.h"

namespace tessera::app {

struct ReplayOptions {
  double gap = 0.01;  // a search ends with a configuration this near to the fastest
  int runs = 50;      // of searches that draw
  std::uint64_t seed = 1;
};

// How many configurations are measured until one is found that is good enough: means over the runs.
// All begin with the first configuration.
struct SearchReplay {
  std::string name;
  std::int64_t configs = 0;
  double random = 0, local = 0;  // policies without a model
  double judged = 0;             // by their scores, the highest first
};

// Scores: higher is faster. Configurations without a time do not count, and of equal ones the first
// does. kInvalidArgument: there is no such policy.
Result<SearchReplay> replay_searches(const graphset::ConfigGraph& graph,
                                     std::span<const float> scores,
                                     const ReplayOptions& options = {});

}  // namespace tessera::app
