#include "tessera/frontend/task/plan_space.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tessera::task {
namespace {

using decide::Point;

std::optional<std::int32_t> find_label(const Point& point, const std::string& label) {
  const auto it = std::find(point.labels.begin(), point.labels.end(), label);
  if (it == point.labels.end()) return std::nullopt;
  return static_cast<std::int32_t>(it - point.labels.begin());
}

std::vector<std::unique_ptr<decide::Sketch>> one(std::unique_ptr<decide::Sketch> sketch) {
  std::vector<std::unique_ptr<decide::Sketch>> out;
  out.push_back(std::move(sketch));
  return out;
}

}  // namespace

// As far as no decision is asked.
struct PlanSpace::Model {
  graph::Graph undecided;
  graph::PassOptions passes;
  PartitionOptions partition;
};

class PlanSpace::PlanSketch final : public decide::Sketch {
 public:
  PlanSketch(std::shared_ptr<const Model> model, std::vector<Point> points)
      : model_(std::move(model)) {
    name_ = "plan";
    points_ = std::move(points);
    for (std::size_t p = 0; p < points_.size(); ++p) index_[points_[p].name] = p;
  }

  void walk(decide::Asker& asker) const override {
    const auto decider = std::make_shared<plan::Decider>(
        plan::Decisions(), [&](const Point& point) { return answer(point, asker); });
    graph::PassOptions passes = model_->passes;
    PartitionOptions partition = model_->partition;
    passes.decider = partition.decider = decider;
    partition.follow(passes.rules);
    graph::Graph graph = model_->undecided;
    if (!graph::optimize(graph, passes) || !task::partition(graph, partition)) return;
    (void)decide_launches(passes);
  }

 private:
  // An error ends the rewriting where no further answer matters.
  Result<std::int32_t> answer(const Point& asked, decide::Asker& asker) const {
    const auto at = index_.find(asked.name);
    if (at == index_.end()) return asked.preferred;
    const Point& point = points_[at->second];
    const std::int32_t value = asker.ask(at->second, [&](std::int32_t v) -> const char* {
      const bool legal = v == point.preferred || find_label(asked, point.label(v));
      return legal ? nullptr : "not after the decisions before it";
    });
    if (asker.stopped()) return make_error(ErrorCode::kInvalidArgument, "the walk has ended");
    if (value == point.preferred) return asked.preferred;
    return find_label(asked, point.label(value)).value_or(asked.preferred);
  }

  std::shared_ptr<const Model> model_;
  std::map<std::string, std::size_t> index_;  // of the points by name
};

PlanSpace::PlanSpace(std::shared_ptr<const Model> model, std::unique_ptr<decide::Sketch> sketch,
                     plan::Decisions rules)
    : decide::Space(one(std::move(sketch))), model_(std::move(model)), rules_(std::move(rules)) {}

Result<PlanSpace> PlanSpace::make(graph::Graph imported, graph::PassOptions passes,
                                  const PartitionOptions& partition,
                                  const std::vector<decide::PointKind>& without) {
  TESSERA_DO(graph::optimize_undecided(imported, passes));
  passes.verify = false;
  passes.shapes_only = true;
  auto model =
      std::make_shared<const Model>(Model{std::move(imported), std::move(passes), partition});
  TESSERA_TRY(const PlannedGraph rules,
              apply_plan(model->undecided, model->passes, model->partition, plan::Decider()));
  std::vector<Point> points;
  plan::Decisions all;
  for (const plan::Decided& d : rules.decided) {
    all[d.point.name] = d.text();
    if (std::find(without.begin(), without.end(), d.point.kind) == without.end())
      points.push_back(d.point);
  }
  auto sketch = std::make_unique<PlanSketch>(model, std::move(points));
  return PlanSpace(std::move(model), std::move(sketch), std::move(all));
}

plan::Decisions PlanSpace::decisions(const decide::Candidate& candidate) const {
  plan::Decisions out;
  const std::vector<Point>& points = this->points();
  for (std::size_t p = 0; p < points.size(); ++p) {
    if (candidate.choice[p] != points[p].preferred)
      out[points[p].name] = points[p].label(candidate.choice[p]);
  }
  return out;
}

decide::Candidate PlanSpace::candidate(const plan::Decisions& decisions) const {
  decide::Candidate out = preferred();
  const std::vector<Point>& points = this->points();
  for (std::size_t p = 0; p < points.size(); ++p) {
    const auto given = decisions.find(points[p].name);
    if (given == decisions.end()) continue;
    out.choice[p] = find_label(points[p], given->second).value_or(points[p].preferred);
  }
  sketches()[0]->settle(out.choice);
  return out;
}

Result<PlannedGraph> PlanSpace::apply(const plan::Decisions& decisions) const {
  return apply_plan(model_->undecided, model_->passes, model_->partition, plan::Decider(decisions));
}

}  // namespace tessera::task
