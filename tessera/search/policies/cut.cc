// By the scores of a model that add up, as shares of a time do: the values that gain alone, taken
// together as long as they gain; then the layouts that a minimum cut of what they cost alone and in
// pairs flips at once. When both were proposed, evolution goes on.
#include <algorithm>
#include <cmath>

#include "tessera/frontend/plan/costs.h"
#include "tessera/search/breeding.h"
#include "tessera/search/policies/policies.h"

namespace tessera::search {
namespace {

// Layouts this near in the order of the points may meet without a conversion between them.
constexpr std::size_t kNear = 3;
// Costs are whole numbers of this.
constexpr double kUnit = 1e-9;

std::int64_t units(double cost) { return static_cast<std::int64_t>(std::llround(cost / kUnit)); }

// A value of a point, and the candidate with it that otherwise is as another one.
struct Change {
  std::size_t point = 0;
  std::int32_t value = 0;
  double gain = 0;  // of the score
};

class Cut final : public DrawingPolicy {
 public:
  Cut(const decide::Space& space, Scorer& scorer, const PolicyOptions& options)
      : DrawingPolicy(space, options),
        scorer_(scorer),
        evolution_(make_evolutionary(space, scorer, options)) {}

  std::vector<decide::Candidate> propose(std::size_t n) override {
    std::vector<decide::Candidate> out;
    if (n == 0) return out;
    if (options_.with_preferred) add_preferred(space_, history_, &out);
    if (scorer_.ready() && !searched_) {
      searched_ = true;
      const decide::Candidate gains = take_gains();
      const decide::Candidate cut = cut_layouts(gains);
      found_ = {gains};
      if (score(cut) > score(gains)) found_.push_back(cut);
    }
    for (; !found_.empty() && out.size() < n; found_.pop_back()) claim(found_.back(), &out);
    if (out.size() < n) {
      for (const decide::Candidate& c : evolution_->propose(n - out.size())) claim(c, &out);
    }
    fill_up(space_, n, history_, rng_, &out);
    return out;
  }

  void observe(std::span<const Observation> observations) override {
    DrawingPolicy::observe(observations);
    evolution_->observe(observations);
  }

 private:
  void claim(const decide::Candidate& c, std::vector<decide::Candidate>* out) {
    if (history_.claim(c)) out->push_back(c);
  }

  bool late() const { return options_.late && options_.late(); }

  double score(const decide::Candidate& c) {
    const std::vector<float> scores = scorer_.score({&c, 1});
    return scores.empty() ? 0 : static_cast<double>(scores[0]);
  }

  decide::Candidate fastest() const {
    return history_.fastest().empty() ? space_.preferred() : history_.fastest()[0].candidate;
  }

  std::optional<decide::Candidate> with(decide::Candidate c,
                                        std::span<const Change> changes) const {
    for (const Change& change : changes) c.choice[change.point] = change.value;
    return space_.settled(c);
  }

  // All values of all points, one at a time.
  std::vector<Change> single_gains(const decide::Candidate& from) {
    std::vector<Change> changes;
    std::vector<decide::Candidate> candidates;
    const std::vector<decide::Point>& points = space_.points(from);
    for (std::size_t p = 0; p < points.size(); ++p) {
      for (std::int32_t v = 0; v < std::ssize(points[p].values); ++v) {
        const Change change{p, v};
        if (v == from.choice[p] || late()) continue;
        const std::optional<decide::Candidate> c = with(from, {&change, 1});
        if (!c || *c == from) continue;
        changes.push_back(change);
        candidates.push_back(*c);
      }
    }
    const double from_score = score(from);
    const std::vector<float> scores = scorer_.score(candidates);
    if (scores.size() != changes.size()) return {};
    for (std::size_t i = 0; i < changes.size(); ++i)
      changes[i].gain = static_cast<double>(scores[i]) - from_score;
    std::erase_if(changes, [](const Change& c) { return !(c.gain > 0); });
    std::stable_sort(changes.begin(), changes.end(),
                     [](const Change& a, const Change& b) { return a.gain > b.gain; });
    return changes;
  }

  // The greatest gains, one after the other as long as they gain together.
  decide::Candidate take_gains() {
    decide::Candidate taken = fastest();
    double best = score(taken);
    for (const Change& change : single_gains(taken)) {
      if (late()) break;
      const std::optional<decide::Candidate> more = with(taken, {&change, 1});
      if (!more) continue;
      if (const double s = score(*more); s > best) {
        best = s;
        taken = *more;
      }
    }
    return taken;
  }

  // Of points with two values, the other one.
  std::vector<Change> flips(const decide::Candidate& from) const {
    std::vector<Change> out;
    const std::vector<decide::Point>& points = space_.points(from);
    for (std::size_t p = 0; p < points.size(); ++p) {
      if (points[p].kind == decide::PointKind::kLayout && points[p].values.size() == 2)
        out.push_back({p, 1 - from.choice[p]});
    }
    return out;
  }

  // A layout costs what it changes alone; a pair gains what both together cost less than the sum.
  decide::Candidate cut_layouts(const decide::Candidate& from) {
    const std::vector<Change> layouts = flips(from);
    if (layouts.empty()) return from;
    const double from_score = score(from);
    const auto cost = [&](std::span<const Change> changes) {
      const std::optional<decide::Candidate> c = late() ? std::nullopt : with(from, changes);
      return c ? from_score - score(*c) : INFINITY;
    };
    std::vector<double> alone;
    alone.reserve(layouts.size());
    for (const Change& change : layouts) alone.push_back(cost({&change, 1}));
    std::vector<double> costs = alone;
    std::vector<plan::CostGraph::Edge> edges;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      for (std::size_t j = i + 1; j < std::min(layouts.size(), i + 1 + kNear); ++j) {
        const Change both[] = {layouts[i], layouts[j]};
        const double together = cost(both) - alone[i] - alone[j];
        if (!std::isfinite(together) || together >= 0) continue;
        costs[i] += together / 2;
        costs[j] += together / 2;
        edges.push_back({i, {j}, units(-together / 2)});
      }
    }
    return with(from, cheapest(from, layouts, costs, std::move(edges))).value_or(from);
  }

  std::vector<Change> cheapest(const decide::Candidate& from, const std::vector<Change>& layouts,
                               const std::vector<double>& costs,
                               std::vector<plan::CostGraph::Edge> edges) const {
    plan::CostGraph graph;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const bool known = std::isfinite(costs[i]);
      const std::int64_t flip = known ? units(costs[i]) : 0;
      graph.add(plan::CostGraph::Node{
          space_.points(from)[layouts[i].point].name,
          {"kept", "flipped"},
          {std::max<std::int64_t>(0, -flip),
           known ? std::max<std::int64_t>(0, flip) : plan::CostGraph::kNever}});
    }
    for (plan::CostGraph::Edge& edge : edges) graph.add(std::move(edge));
    const plan::CheapestValues cut = plan::cheapest_values(graph);
    std::vector<Change> out;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      if (cut.values[i] == 1) out.push_back(layouts[i]);
    }
    return out;
  }

  Scorer& scorer_;
  std::unique_ptr<Policy> evolution_;
  bool searched_ = false;
  std::vector<decide::Candidate> found_;  // still to be proposed, the last one first
};

}  // namespace

std::unique_ptr<Policy> make_cut(const decide::Space& space, Scorer& scorer,
                                 const PolicyOptions& options) {
  return std::make_unique<Cut>(space, scorer, options);
}

}  // namespace tessera::search
