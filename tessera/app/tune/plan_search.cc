#include "tessera/app/tune/plan_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "tessera/frontend/plan/costs.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

using plan::Decided;
using plan::Decisions;
using plan::PointKind;

// Layouts this near in the order of the network may meet without a conversion between them.
constexpr std::size_t kNear = 3;
// Of the cost, at the start of the annealing: what a step may lose.
constexpr double kHeat = 0.01;

// What gains most often first; to store between the parts of a kernel gained nothing alone.
constexpr std::array kOrder = {PointKind::kFront,     PointKind::kSplit, PointKind::kAlgorithm,
                               PointKind::kPointwise, PointKind::kMerge, PointKind::kLayout};

std::vector<const Decided*> of_kind(const std::vector<Decided>& points, PointKind kind) {
  std::vector<const Decided*> out;
  for (const Decided& d : points) {
    if (d.point.kind == kind) out.push_back(&d);
  }
  return out;
}

// The other value of a point of two.
const std::string& flipped(const Decided& d) { return d.point.values[d.value == 0 ? 1 : 0]; }

std::int64_t picoseconds(double seconds) {
  return static_cast<std::int64_t>(std::llround(seconds * 1e12));
}

class PlanSearch {
 public:
  PlanSearch(PlanCosts& costs, const PlanSearchOptions& options, const std::vector<Decided>& points)
      : costs_(costs), options_(options), points_(points), rng_(options.seed) {}

  std::vector<JudgedPlan> run() {
    rules_s_ = best_s_ = costs_.seconds({});
    if (!std::isfinite(rules_s_)) return {};
    take_gains();
    cut_layouts();
    anneal();
    std::stable_sort(found_.begin(), found_.end(), [](const JudgedPlan& a, const JudgedPlan& b) {
      return a.seconds < b.seconds;
    });
    return std::move(found_);
  }

 private:
  bool stopped() const { return options_.stop && options_.stop(); }

  double judge(const Decisions& decisions) { return costs_.seconds(decisions); }

  // Keeps a plan that is better than the rules', and moves on to it when it is the best.
  void offer(const Decisions& decisions, double seconds, const char* by) {
    if (!(seconds < rules_s_)) return;
    const Result<const PlanTasks*> plan = costs_.tasks_of(decisions);
    if (!plan || !kernels_.insert(**plan).second) return;
    found_.push_back({decisions, seconds, by});
    if (seconds >= best_s_) return;
    best_s_ = seconds;
    best_ = decisions;
  }

  // Values that gain alone, one after the other as long as they gain together.
  void take_gains() {
    struct Gain {
      double seconds;
      std::string key, value;
    };
    std::vector<Gain> gains;
    for (const PointKind kind : kOrder) {
      for (const Decided* d : of_kind(points_, kind)) {
        for (std::size_t v = 0; v < d->point.values.size() && !stopped(); ++v) {
          if (v == d->value) continue;
          const std::string& value = d->point.values[v];
          // What was not visited was not measured either.
          if (!costs_.knows({{d->point.key, value}})) continue;
          const double seconds = judge({{d->point.key, value}});
          if (seconds < rules_s_) gains.push_back({seconds, d->point.key, value});
        }
      }
    }
    std::stable_sort(gains.begin(), gains.end(),
                     [](const Gain& a, const Gain& b) { return a.seconds < b.seconds; });
    Decisions taken;
    double taken_s = rules_s_;
    for (const Gain& g : gains) {
      if (stopped()) break;
      Decisions more = taken;
      more[g.key] = g.value;
      const double seconds = judge(more);
      if (!(seconds < taken_s)) continue;
      taken = std::move(more);
      taken_s = seconds;
    }
    offer(taken, taken_s, "single");
  }

  Decisions with_layouts(const std::vector<const Decided*>& flips) const {
    Decisions out = best_;
    for (const Decided* d : flips) out[d->point.key] = flipped(*d);
    return out;
  }

  // A layout costs what it changes alone; a pair gains what both together cost less than the sum.
  void cut_layouts() {
    const std::vector<const Decided*> layouts = of_kind(points_, PointKind::kLayout);
    std::vector<double> alone;
    alone.reserve(layouts.size());
    const double from_s = best_s_;
    for (const Decided* d : layouts)
      alone.push_back(stopped() ? INFINITY : judge(with_layouts({d})) - from_s);
    std::vector<double> costs = alone;
    std::vector<plan::CostGraph::Edge> edges;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      for (std::size_t j = i + 1; j < std::min(layouts.size(), i + 1 + kNear); ++j) {
        if (!std::isfinite(alone[i]) || !std::isfinite(alone[j]) || stopped()) continue;
        const double both = judge(with_layouts({layouts[i], layouts[j]})) - from_s;
        const double together = both - alone[i] - alone[j];
        if (!std::isfinite(together) || together >= 0) continue;
        costs[i] += together / 2;
        costs[j] += together / 2;
        edges.push_back({i, {j}, picoseconds(-together / 2)});
      }
    }
    plan::CostGraph graph;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const bool known = std::isfinite(costs[i]);
      const std::int64_t cost = known ? picoseconds(costs[i]) : 0;
      graph.add(plan::CostGraph::Node{
          layouts[i]->point.key,
          {layouts[i]->text(), flipped(*layouts[i])},
          {std::max<std::int64_t>(0, -cost),
           known ? std::max<std::int64_t>(0, cost) : plan::CostGraph::kNever}});
    }
    for (plan::CostGraph::Edge& edge : edges) graph.add(std::move(edge));
    if (layouts.empty()) return;
    const plan::CheapestValues cut = plan::cheapest_values(graph);
    std::vector<const Decided*> flips;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      if (cut.values[i] == 1) flips.push_back(layouts[i]);
    }
    if (flips.empty()) return;
    const Decisions chosen = with_layouts(flips);
    offer(chosen, judge(chosen), "cut");
  }

  // One value of one point, or of a run of points of one kind.
  Decisions step(Decisions from) {
    const auto first = static_cast<std::size_t>(rng_.below(std::ssize(points_)));
    const std::int64_t run = rng_.chance(0.7) ? 1 : rng_.between(2, 6);
    const PointKind kind = points_[first].point.kind;
    const auto pick = rng_.next();
    for (std::size_t i = first, n = 0; i < points_.size() && n < static_cast<std::size_t>(run);
         ++i) {
      const plan::Point& p = points_[i].point;
      if (p.kind != kind) break;
      const std::size_t value = pick % p.values.size();
      if (value == points_[i].value) {
        from.erase(p.key);
      } else {
        from[p.key] = p.values[value];
      }
      ++n;
    }
    return from;
  }

  void anneal() {
    if (points_.empty()) return;
    Decisions now = best_;
    double now_s = best_s_;
    std::vector<JudgedPlan> ends;
    for (std::int64_t i = 0; i < options_.steps && !stopped(); ++i) {
      const double heat =
          kHeat * best_s_ * (1 - static_cast<double>(i) / static_cast<double>(options_.steps));
      Decisions next = step(now);
      if (next == now) continue;
      const double seconds = judge(next);
      if (!std::isfinite(seconds)) continue;
      if (seconds > now_s && !rng_.chance(std::exp((now_s - seconds) / std::max(heat, 1e-12))))
        continue;
      now = std::move(next);
      now_s = seconds;
      ends.push_back({now, now_s, "annealing"});
      std::stable_sort(ends.begin(), ends.end(), [](const JudgedPlan& a, const JudgedPlan& b) {
        return a.seconds < b.seconds;
      });
      if (ends.size() > options_.keep) ends.pop_back();
    }
    for (const JudgedPlan& p : ends) offer(p.decisions, p.seconds, "annealing");
  }

  PlanCosts& costs_;
  const PlanSearchOptions& options_;
  const std::vector<Decided>& points_;
  Rng rng_;
  double rules_s_ = 0, best_s_ = 0;
  Decisions best_;
  std::vector<JudgedPlan> found_;
  std::set<PlanTasks> kernels_;  // of the plans in found_
};

}  // namespace

Result<void> visit_neighbours(PlanCosts& costs, const std::function<bool()>& stop) {
  TESSERA_DO(costs.tasks_of({}));
  TESSERA_TRY(const std::vector<Decided> all, costs.points());
  // Decisions that do not fit each other are no plans: not an error of the model.
  const auto visit = [&](const Decisions& decisions) { (void)costs.tasks_of(decisions); };
  for (const PointKind kind : kOrder) {
    const std::vector<const Decided*> points = of_kind(all, kind);
    for (const Decided* d : points) {
      for (std::size_t v = 0; v < d->point.values.size(); ++v) {
        if (stop()) return {};
        if (v != d->value) visit({{d->point.key, d->point.values[v]}});
      }
    }
    if (kind != PointKind::kLayout || points.empty()) continue;
    visit({{plan::info(kind).family, plan::kFirst}});
    for (std::size_t i = 0; i < points.size(); ++i) {
      for (std::size_t j = i + 1; j < std::min(points.size(), i + 1 + kNear) && !stop(); ++j) {
        visit({{points[i]->point.key, flipped(*points[i])},
               {points[j]->point.key, flipped(*points[j])}});
      }
    }
  }
  return {};
}

std::vector<JudgedPlan> search_plans(PlanCosts& costs, const PlanSearchOptions& options) {
  const Result<std::vector<Decided>> points = costs.points();
  if (!points) return {};
  return PlanSearch(costs, options, *points).run();
}

}  // namespace tessera::app
