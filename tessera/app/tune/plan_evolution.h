// The search over plans by whole models that were measured: near the fastest, with a judge in front
// and what single changes did so far.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "tessera/app/tune/plan_judge.h"
#include "tessera/support/rng.h"

namespace tessera::app {

class PlanEvolution {
 public:
  // `points`: every point that the rules' plan asks. Without a judge plans come as they are drawn.
  PlanEvolution(const std::vector<plan::Decided>& points, PlanJudge* judge, std::uint64_t seed);

  // What to measure next: a plan that was not there before. None: there is hardly one.
  Result<std::optional<plan::Decisions>> next();

  // A plan was measured: its time as a share of the rules' plan's. Not finite: it cannot be built,
  // or computes something else.
  void observe(const plan::Decisions& plan, double share);

  const plan::Decisions& best() const { return parents_.front().plan; }
  double best_share() const { return parents_.front().share; }

 private:
  struct Parent {
    plan::Decisions plan;
    double share = 1;
  };
  struct Effect {
    double sum = 0;  // of logarithms
    int count = 0;
  };
  using Change = std::pair<std::string, std::string>;  // a point and its value; empty: the rules'

  plan::Decisions mutate(const plan::Decisions& from);
  static std::vector<Change> changes_between(const plan::Decisions& from,
                                             const plan::Decisions& to);
  // By what its changes did where they were measured, as a logarithm.
  double expected(const plan::Decisions& from, const plan::Decisions& to) const;

  std::vector<std::vector<const plan::Decided*>> kinds_;  // points with several values, by kind
  PlanJudge* judge_;
  Rng rng_;
  std::vector<Parent> parents_;  // fastest first; the rules' plan among them at first
  std::set<plan::Decisions> known_;
  std::map<Change, Effect> effects_;
};

}  // namespace tessera::app
