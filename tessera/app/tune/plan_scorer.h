// What orders plans before any is built: scorers of the policies that search them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tessera/app/tune/kernel_corrections.h"
#include "tessera/app/tune/plan_costs.h"
#include "tessera/app/tune/plan_estimates.h"
#include "tessera/app/tune/plan_graphs.h"
#include "tessera/learn/model/graph_scorer.h"
#include "tessera/search/policy.h"

namespace tessera::app {

class PlanScorer : public search::Scorer {
 public:
  // A plan was measured: its time as a share of the rules' plan's.
  virtual void observe(const decide::Candidate& plan, double share) = 0;
  std::int64_t scored() const { return scored_; }

 protected:
  std::int64_t scored_ = 0;
};

// By the sums of their kernels, corrected by the plans that were measured, as shares of the rules'
// plan: 0 is best. Plans of kernels without a time come after all others. The spread is by what is
// not known about kernels.
class SumScorer final : public PlanScorer {
 public:
  explicit SumScorer(PlanCosts& costs) : costs_(costs), corrections_(costs) {}
  bool ready() const override;
  std::vector<float> score(std::span<const decide::Candidate> plans) override;
  std::vector<float> spread(std::span<const decide::Candidate> plans) override;
  void observe(const decide::Candidate& plan, double share) override;
  // As a share of the rules' plan; infinite: a kernel has no time.
  KernelCorrections::Belief believe(const decide::Candidate& plan) const;

 private:
  // Of branches that run side by side sums say too much.
  std::optional<double> expected(const plan::Decisions& plan) const;

  PlanCosts& costs_;
  KernelCorrections corrections_;
  std::set<PlanTasks> observed_;  // decisions may differ and lead to the same kernels
};

// By networks that learnt from plans of other models; several judge together.
class NetworkScorer final : public PlanScorer {
 public:
  // `costs` and `estimates`, which outlive it, say what kernels take: as measured, or else as
  // believed. kInvalidArgument: no weights of such networks; kUnsupported: nothing about the model
  // is decided.
  static Result<std::unique_ptr<NetworkScorer>> make(const graph::Graph& imported,
                                                     const graph::PassOptions& passes,
                                                     const std::vector<std::string>& weights,
                                                     PlanCosts& costs, PlanEstimates& estimates);
  bool ready() const override { return true; }
  // Empty: the networks cannot judge these plans.
  std::vector<float> score(std::span<const decide::Candidate> plans) override;
  std::vector<float> spread(std::span<const decide::Candidate>) override { return {}; }
  void observe(const decide::Candidate& plan, double share) override { sums_.observe(plan, share); }

 private:
  NetworkScorer(PlanGraph graph, PlanCosts& costs, PlanEstimates& estimates)
      : graph_(std::move(graph)), costs_(costs), estimates_(estimates), sums_(costs) {}
  double estimate(const decide::Candidate& plan);
  // A row for each judge, the networks and then the estimate: what it thinks of each plan.
  using Votes = std::vector<std::vector<float>>;
  Result<Votes> votes(std::span<const decide::Candidate> plans);
  Result<void> find_scales();

  PlanGraph graph_;
  PlanCosts& costs_;
  PlanEstimates& estimates_;
  SumScorer sums_;
  bool estimated_ = false;  // some network reads estimates
  std::vector<std::unique_ptr<model::GraphScorer>> scorers_;
  // Of each judge: votes of different batches are compared by what plans near the rules' have.
  struct Scale {
    float mean = 0, deviation = 1;
  };
  std::vector<Scale> scales_;
};

}  // namespace tessera::app
