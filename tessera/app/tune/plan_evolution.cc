#include "tessera/app/tune/plan_evolution.h"

#include <algorithm>
#include <cmath>

namespace tessera::app {
namespace {

using plan::Decided;
using plan::Decisions;

// The fastest plans so far, which others are drawn from.
constexpr std::size_t kParents = 4;
// Draws for one place in the pool before the neighbourhood counts as used up.
constexpr int kDraws = 40;
// Changes that cost more than this where they were measured are drawn again, but for some.
constexpr double kHarm = 0.002, kDespite = 0.1;
// What could not be built is as bad as this.
constexpr double kFailed = 1.0;
// Plans that are taken as they were drawn, whatever the judge says: it may be wrong.
constexpr double kUnjudged = 0.15;

}  // namespace

PlanEvolution::PlanEvolution(const std::vector<Decided>& points, PlanJudge* judge,
                             std::uint64_t seed)
    : kinds_(plan::kPointKinds), judge_(judge), rng_(seed), parents_({{{}, 1}}), known_({{}}) {
  for (const Decided& d : points) {
    // To store between the parts of a kernel gained nothing alone in any search so far.
    if (d.point.kind == plan::PointKind::kFusion) continue;
    if (d.point.values.size() > 1) kinds_[static_cast<std::size_t>(d.point.kind)].push_back(&d);
  }
  std::erase_if(kinds_, [](const std::vector<const Decided*>& k) { return k.empty(); });
}

// Values of one point each, now and then of a run of points: layouts gain together.
Decisions PlanEvolution::mutate(const Decisions& from) {
  Decisions out = from;
  const std::int64_t times = rng_.chance(0.5) ? 1 : rng_.between(2, 4);
  for (std::int64_t t = 0; t < times; ++t) {
    const auto& points = kinds_[static_cast<std::size_t>(rng_.below(std::ssize(kinds_)))];
    const auto first = static_cast<std::size_t>(rng_.below(std::ssize(points)));
    const auto run = static_cast<std::size_t>(rng_.chance(0.8) ? 1 : rng_.between(2, 5));
    const std::uint64_t pick = rng_.next();
    for (std::size_t i = first; i < std::min(points.size(), first + run); ++i) {
      const plan::Point& p = points[i]->point;
      const std::size_t value = pick % p.values.size();
      if (value == points[i]->value) {
        out.erase(p.key);
      } else {
        out[p.key] = p.values[value];
      }
    }
  }
  return out;
}

std::vector<PlanEvolution::Change> PlanEvolution::changes_between(const Decisions& from,
                                                                  const Decisions& to) {
  std::vector<Change> out;
  for (const auto& [key, value] : to) {
    const auto was = from.find(key);
    if (was == from.end() || was->second != value) out.emplace_back(key, value);
  }
  for (const auto& [key, value] : from) {
    if (!to.contains(key)) out.emplace_back(key, "");
  }
  return out;
}

double PlanEvolution::expected(const Decisions& from, const Decisions& to) const {
  double sum = 0;
  for (const Change& c : changes_between(from, to)) {
    if (const auto known = effects_.find(c); known != effects_.end())
      sum += known->second.sum / known->second.count;
  }
  return sum;
}

Result<std::optional<Decisions>> PlanEvolution::next() {
  if (kinds_.empty()) return std::optional<Decisions>();
  const bool judged = judge_ != nullptr && !rng_.chance(kUnjudged);
  const std::size_t wanted = judged ? judge_->pool() : 1;
  std::vector<Decisions> pool;
  std::set<Decisions> drawn;
  for (int vain = 0; pool.size() < wanted && vain < kDraws;) {
    // The fastest plan twice as often as the others.
    const auto parent = static_cast<std::size_t>(
        std::min(rng_.below(std::ssize(parents_) + 1), rng_.below(std::ssize(parents_))));
    const Decisions& from = parents_[parent].plan;
    Decisions plan = mutate(from);
    const bool harmful = expected(from, plan) > kHarm && !rng_.chance(kDespite);
    if (known_.contains(plan) || harmful || !drawn.insert(plan).second) {
      ++vain;
      continue;
    }
    vain = 0;
    pool.push_back(std::move(plan));
  }
  if (judged) {
    for (Decisions& plan : judge_->met()) {
      if (!known_.contains(plan) && !drawn.contains(plan)) pool.push_back(std::move(plan));
    }
  }
  if (pool.empty()) return std::optional<Decisions>();
  std::size_t best = 0;
  if (judged) {
    TESSERA_TRY(const std::vector<double> scores, judge_->judge(pool));
    best =
        static_cast<std::size_t>(std::min_element(scores.begin(), scores.end()) - scores.begin());
  }
  return std::optional<Decisions>(std::move(pool[best]));
}

void PlanEvolution::observe(const Decisions& plan, double share) {
  known_.insert(plan);
  if (judge_ != nullptr) judge_->observe(plan, share);
  // Its changes against the nearest plan that it may have come from.
  const Parent* nearest = &parents_.front();
  std::vector<Change> changes = changes_between(nearest->plan, plan);
  for (const Parent& p : parents_) {
    std::vector<Change> other = changes_between(p.plan, plan);
    if (other.size() >= changes.size()) continue;
    nearest = &p;
    changes = std::move(other);
  }
  const double gain = std::isfinite(share) ? std::log(share / nearest->share) : kFailed;
  for (const Change& c : changes) {
    Effect& e = effects_[c];
    e.sum += gain / static_cast<double>(changes.size());
    ++e.count;
  }
  if (!std::isfinite(share)) return;
  parents_.push_back({plan, share});
  std::stable_sort(parents_.begin(), parents_.end(),
                   [](const Parent& a, const Parent& b) { return a.share < b.share; });
  if (parents_.size() > kParents) parents_.pop_back();
}

}  // namespace tessera::app
