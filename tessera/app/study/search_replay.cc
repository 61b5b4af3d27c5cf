#include "tessera/app/study/search_replay.h"

#include <algorithm>
#include <map>

#include "tessera/app/tune/recorded_space.h"

namespace tessera::app {
namespace {

// Columns of configurations as points, which have the values that some configuration has.
class Configurations {
 public:
  Configurations(const graphset::ConfigGraph& graph, std::span<const float> scores) {
    std::vector<std::int64_t> timed;
    for (std::int64_t i = 0; i < graph.size(); ++i) {
      if (graph.cost(i) > 0) timed.push_back(i);
    }
    if (timed.empty()) return;
    std::vector<decide::Candidate> candidates(timed.size());
    std::vector<decide::Point> points;
    for (std::int64_t c = 0; c < graph.places() * graph.config_columns(); ++c) {
      std::map<float, std::int32_t> values;
      for (const std::int64_t i : timed) values.try_emplace(graph.config(i)[c]);
      if (values.size() < 2) continue;
      decide::Point& p = points.emplace_back();
      p.name = "column" + std::to_string(c);
      for (auto& [value, index] : values) {
        index = static_cast<std::int32_t>(p.values.size());
        p.values.push_back({index});
      }
      for (std::size_t i = 0; i < timed.size(); ++i)
        candidates[i].choice.push_back(values.at(graph.config(timed[i])[c]));
      p.preferred = candidates[0].choice.back();
    }
    RecordedSpace::Times times;
    for (std::size_t i = 0; i < timed.size(); ++i) {
      if (!times.try_emplace(candidates[i], graph.cost(timed[i])).second) continue;
      judged_.emplace_back(scores[static_cast<std::size_t>(timed[i])], graph.cost(timed[i]));
    }
    space_.emplace(std::move(points), std::move(times));
  }

  const std::optional<RecordedSpace>& space() const { return space_; }

  // The first one, then by scores.
  double until_judged(double enough) {
    std::stable_sort(judged_.begin() + 1, judged_.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    const auto found = std::find_if(judged_.begin(), judged_.end(),
                                    [&](const auto& j) { return j.second <= enough; });
    return static_cast<double>(found - judged_.begin() + 1);
  }

 private:
  std::optional<RecordedSpace> space_;            // none: no configuration has a time
  std::vector<std::pair<float, double>> judged_;  // scores and costs
};

}  // namespace

Result<SearchReplay> replay_searches(const graphset::ConfigGraph& graph,
                                     std::span<const float> scores, const ReplayOptions& options) {
  TESSERA_CHECK(scores.size() == graph.runtime_ns.size(), "{} scores of {} configurations",
                scores.size(), graph.runtime_ns.size());
  SearchReplay out{.name = graph.name};
  Configurations configurations(graph, scores);
  if (!configurations.space()) return out;
  const RecordedSpace& space = *configurations.space();
  const double enough = (1 + options.gap) * space.best_s();
  for (const auto& [name, mean] : {std::pair("random", &out.random), {"local", &out.local}}) {
    TESSERA_TRY(const search::PolicyEntry* policy, search::find_policy(name));
    for (int run = 0; run < options.runs; ++run) {
      search::PolicyOptions drawing;
      drawing.seed = options.seed + static_cast<std::uint64_t>(run);
      const std::vector<double> measured =
          space.search(*policy, search::no_scorer(), drawing, space.size(),
                       [&](double cost) { return cost <= enough; });
      *mean += static_cast<double>(measured.size()) / options.runs;
    }
  }
  out.configs = static_cast<std::int64_t>(space.size());
  out.judged = configurations.until_judged(enough);
  return out;
}

}  // namespace tessera::app
