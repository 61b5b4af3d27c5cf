// Judges of plans: what orders them before any is built.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/driver/learn/plan_estimates.h"
#include "tessera/driver/learn/plan_graphs.h"
#include "tessera/driver/tune/plan_costs.h"
#include "tessera/model/graph_scorer.h"

namespace tessera::driver {

class PlanJudge {
 public:
  virtual ~PlanJudge() = default;
  // One number a plan, lower is faster; infinite: it cannot tell. Plans hold what differs from the
  // rules'.
  virtual Result<std::vector<double>> judge(const std::vector<plan::Decisions>& plans) = 0;
  // So many plans cost it about as much as measuring one.
  virtual std::size_t pool() const = 0;
};

// By the sums of their kernels.
class SumJudge final : public PlanJudge {
 public:
  explicit SumJudge(PlanCosts& costs) : costs_(costs) {}
  Result<std::vector<double>> judge(const std::vector<plan::Decisions>& plans) override;
  std::size_t pool() const override { return 12; }

 private:
  PlanCosts& costs_;
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

 private:
  NetworkJudge(PlanGraph graph, plan::Decisions rules, PlanCosts& costs, PlanEstimates& estimates)
      : graph_(std::move(graph)), rules_(std::move(rules)), costs_(costs), estimates_(estimates) {}
  double estimate(const plan::Decisions& changes);

  PlanGraph graph_;
  plan::Decisions rules_;
  PlanCosts& costs_;
  PlanEstimates& estimates_;
  bool estimated_ = false;  // some network reads estimates
  std::vector<std::unique_ptr<model::GraphScorer>> scorers_;
};

}  // namespace tessera::driver
