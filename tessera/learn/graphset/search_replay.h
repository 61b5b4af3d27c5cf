// Searches for a fast configuration, replayed on those that were measured.
#pragma once

#include <span>
#include <string>

#include "tessera/learn/graphset/config_graph.h"
#include "tessera/support/json.h"

namespace tessera::graphset {

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
  double random = 0;  // as they come
  // From a configuration to one of its nearest that was not measured yet; a slower one is kept now
  // and then, ever more seldom.
  double annealing = 0;
  double judged = 0;  // by their scores, the highest first
};

Json to_json(const SearchReplay& replay);

// Scores: higher is faster. Configurations without a time do not count.
SearchReplay replay_searches(const ConfigGraph& graph, std::span<const float> scores,
                             const ReplayOptions& options = {});

}  // namespace tessera::graphset
