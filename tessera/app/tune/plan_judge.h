// Judges of plans: what orders them before any is built.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/app/tune/kernel_corrections.h"
#include "tessera/app/tune/plan_costs.h"
#include "tessera/app/tune/plan_estimates.h"
#include "tessera/app/tune/plan_graphs.h"
#include "tessera/learn/model/graph_scorer.h"

namespace tessera::app {

class PlanJudge {
 public:
  virtual ~PlanJudge() = default;
  // One number a plan, lower is faster; infinite: it cannot tell. Plans hold what differs from the
  // rules'.
  virtual Result<std::vector<double>> judge(const std::vector<plan::Decisions>& plans) = 0;
  // So many plans cost it about as much as measuring one.
  virtual std::size_t pool() const = 0;
  // Plans that cost it nothing, because it met them before.
  virtual std::vector<plan::Decisions> met() const { return {}; }
  // A plan was measured: its time as a share of the rules' plan's.
  virtual void observe(const plan::Decisions& plan, double share) {
    (void)plan;
    (void)share;
  }
};

// By the sums of their kernels, corrected by the plans that were measured. Plans about whose
// kernels little is known yet are preferred.
class SumJudge final : public PlanJudge {
 public:
  explicit SumJudge(PlanCosts& costs) : costs_(costs), corrections_(costs) {}
  Result<std::vector<double>> judge(const std::vector<plan::Decisions>& plans) override;
  std::size_t pool() const override { return 12; }
  std::vector<plan::Decisions> met() const override;
  void observe(const plan::Decisions& plan, double share) override;
  // As a share of the rules' plan; infinite: a kernel has no time.
  KernelCorrections::Belief believe(const plan::Decisions& plan) const;

 private:
  // Of branches that run side by side sums say too much.
  std::optional<double> expected(const plan::Decisions& plan) const;

  PlanCosts& costs_;
  KernelCorrections corrections_;
  std::set<PlanTasks> observed_;  // decisions may differ and lead to the same kernels
};

// By networks that learnt from plans of other models; several judge together.
class NetworkJudge final : public PlanJudge {
 public:
  // `points`: every point that the rules' plan asks. `costs` and `estimates`, which outlive it, say
  // what kernels take: as measured, or else as believed. kInvalidArgument: no weights of such
  // networks; kUnsupported: nothing about the model is decided.
  static Result<std::unique_ptr<NetworkJudge>> make(const graph::Graph& imported,
                                                    const graph::PassOptions& passes,
                                                    const std::vector<plan::Decided>& points,
                                                    const std::vector<std::string>& weights,
                                                    PlanCosts& costs, PlanEstimates& estimates);
  Result<std::vector<double>> judge(const std::vector<plan::Decisions>& plans) override;
  std::size_t pool() const override { return 64; }
  std::vector<plan::Decisions> met() const override;
  void observe(const plan::Decisions& plan, double share) override { sums_.observe(plan, share); }

 private:
  NetworkJudge(PlanGraph graph, plan::Decisions rules, PlanCosts& costs, PlanEstimates& estimates)
      : graph_(std::move(graph)),
        rules_(std::move(rules)),
        costs_(costs),
        estimates_(estimates),
        sums_(costs) {}
  double estimate(const plan::Decisions& changes);

  PlanGraph graph_;
  plan::Decisions rules_;
  PlanCosts& costs_;
  PlanEstimates& estimates_;
  SumJudge sums_;
  bool estimated_ = false;  // some network reads estimates
  std::vector<std::unique_ptr<model::GraphScorer>> scorers_;
};

}  // namespace tessera::app
