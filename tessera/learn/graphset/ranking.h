// How well scores order the configurations of a graph, and how well anything could.
#pragma once

#include <map>
#include <span>
#include <string>

#include "tessera/learn/graphset/config_graph.h"
#include "tessera/support/json.h"

namespace tessera::graphset {

// Equal configurations as one, with the mean of their times.
ConfigGraph merge_equal(const ConfigGraph& graph);

struct Ranking {
  std::string name;
  std::int64_t configs = 0;
  double tau = 0;                  // Kendall's tau-b
  double pairwise = 0;             // share of ordered pairs, of those with unequal times
  std::map<int, double> slowdown;  // by k (1, 5, 10, 100): best of the k chosen / best - 1
};

Json to_json(const Ranking& ranking);

// Scores: higher is faster. Configurations without a time do not count.
Ranking rank(const ConfigGraph& graph, std::span<const float> scores);

// What measuring a configuration again says about the times of a graph.
struct Repeats {
  std::int64_t distinct = 0, repeated = 0;  // configurations; those measured more than once
  // Relative difference of a measurement from the mean of its configuration.
  double median_noise = 0, p95_noise = 0;
  // Kendall's tau of one measurement of each repeated configuration with the mean of its others,
  // and with a sum over its places that its own times did not take part in (summed_times); 0: there
  // is none.
  double agreement = 0, summed = 0;
  // Kendall's tau of a predictor that knows the right times, on means of as many measurements with
  // noise drawn from what repeated configurations show, scaled so that drawn measurements agree as
  // well as real ones. Right are the sums where they agree better with a measurement than others of
  // its configuration do, else the means, whose noise makes configurations seem further apart than
  // they are. Nothing repeated: 1.
  double ceiling = 1;
};
Repeats study_repeats(const ConfigGraph& graph, std::uint64_t seed = 1);

// Whether a configuration belongs to the `share` that is learned from. It depends on the
// configuration alone, so that equal ones are never on both sides.
bool is_learned(const ConfigGraph& graph, std::int64_t config, double share);
// The configurations of one side.
ConfigGraph take_side(const ConfigGraph& graph, double share, bool learned);

}  // namespace tessera::graphset
