// The plans of a model as a space: its walk is the rewriting of the graph, so that whatever
// searches schedules searches plans.
#pragma once

#include <memory>
#include <vector>

#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/frontend/task/task.h"
#include "tessera/scheduling/decide/space.h"

namespace tessera::task {

// One sketch, "plan". Its points are those that the rules' plan asks, which is the preferred
// candidate. A value that the rules' plan has leaves the point to the rules, who may answer
// otherwise after other decisions; so they do with points that only other plans ask.
class PlanSpace : public decide::Space {
 public:
  // `imported` as import leaves it. Points of the kinds in `without` are left to the rules.
  static Result<PlanSpace> make(graph::Graph imported, graph::PassOptions passes,
                                const PartitionOptions& partition,
                                const std::vector<decide::PointKind>& without = {});

  const std::vector<decide::Point>& points() const { return sketches()[0]->points(); }
  // Every decision of the rules' plan, those of the kinds that are left to them included.
  const plan::Decisions& rules() const { return rules_; }

  // What the candidate decides otherwise than the rules' plan.
  plan::Decisions decisions(const decide::Candidate& candidate) const;
  // The candidate that decides so, settled. Keys and values that the points do not have are left to
  // the rules: those of plans of other versions.
  decide::Candidate candidate(const plan::Decisions& decisions) const;

  // The model with these decisions as tasks; its constants have no values. kInvalidArgument: a
  // value that the point does not have after what was decided before it.
  Result<PlannedGraph> apply(const plan::Decisions& decisions) const;

 private:
  struct Model;
  class PlanSketch;
  PlanSpace(std::shared_ptr<const Model> model, std::unique_ptr<decide::Sketch> sketch,
            plan::Decisions rules);

  std::shared_ptr<const Model> model_;
  plan::Decisions rules_;
};

}  // namespace tessera::task
