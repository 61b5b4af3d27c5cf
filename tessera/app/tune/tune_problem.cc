#include "tessera/app/tune/tune_problem.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tessera/app/compile/about_model.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/frontend/graph/passes/algorithms.h"
#include "tessera/frontend/plan/columns.h"
#include "tessera/frontend/plan/convolution.h"
#include "tessera/frontend/plan/rules.h"
#include "tessera/lang/te/ops/columns.h"

namespace tessera::app {
namespace {

bool names_algorithm(const std::string& op) {
  return op.find(":algo=") != std::string::npos || op.find(",algo=") != std::string::npos;
}

// Of algorithms: convolutions. Products have one that is as exact as they say, unless another is
// named.
bool has_choice(const te::OpSpec& op) {
  return op.words.contains("algo") && op.ints.contains("CI");
}

plan::Convolution described(const te::OpSpec& spec, const te::Dag& dag) {
  const auto of = [&](const char* name) { return spec.ints.at(name); };
  const auto pad = [&](const char* name) { return spec.ints.count(name) ? of(name) : of("P"); };
  plan::Convolution c;
  c.in = dag.inputs[0].buffer->shape;
  c.out = dag.outputs[0]->shape;
  c.window = {of("KH"), of("KW")};
  c.strides = {of("S"), of("S")};
  c.dilations = {1, 1};
  c.before = {pad("PT"), pad("PL")};
  c.after = {pad("PB"), pad("PR")};
  c.transposed = spec.op == "conv_transpose2d";
  c.channels_last = c.transformable = true;
  return c;
}

std::string preferred_algorithm(const te::OpSpec& spec, const std::map<std::string, te::Dag>& legal,
                                const plan::Rules& rules) {
  const std::string own = spec.words.at("algo");
  const std::string columns = te::kColumnsAlgorithm;
  if (spec.dtype == DType::kF16 || spec.dtype == DType::kBF16) {
    const auto of = [&](const char* name) { return spec.ints.at(name); };
    const bool better =
        plan::prefers_columns(of("CI"), of("CO"), of("CI") * of("KH") * of("KW"), rules);
    return better && legal.contains(columns) ? columns : own;
  }
  // Other windows, strides, groups or layouts: there is no choice.
  const auto transformed = legal.find(plan::convolution_algorithms()[1]);
  if (spec.dtype != DType::kF32 || transformed == legal.end()) return own;
  const plan::Convolution conv = described(spec, transformed->second);
  if (const auto point = plan::transposed_columns_point(conv, rules))
    return point->label(point->preferred) == plan::kProduct ? columns : plan::kDirect;
  return plan::preferred_algorithm(conv, rules);
}

// The algorithm of an operation, named by its key: those that it has, and what a model takes
// without tuning by the rules; only its own where the user named it.
decide::Point op_point(const te::OpSpec& spec, const plan::Rules& rules, bool fixed) {
  decide::Point point{.name = op_key(spec), .kind = decide::PointKind::kAlgorithm};
  if (!has_choice(spec)) return point;
  const std::string& own = spec.words.at("algo");
  std::vector<std::string> names = plan::convolution_algorithms();
  names.emplace_back(te::kColumnsAlgorithm);
  std::map<std::string, te::Dag> legal;
  for (const std::string& name : names) {
    if (fixed && name != own) continue;
    te::OpSpec variant = spec;
    variant.words["algo"] = name;
    Result<te::Dag> dag = te::make_dag(variant);
    if (!dag) continue;
    legal.emplace(name, std::move(*dag));
    point.values.push_back({std::ssize(point.labels)});
    point.labels.push_back(name);
  }
  const std::string wanted = fixed ? own : preferred_algorithm(spec, legal, rules);
  const auto it = std::find(point.labels.begin(), point.labels.end(), wanted);
  if (it != point.labels.end())
    point.preferred = static_cast<std::int32_t>(it - point.labels.begin());
  return point;
}

// Uses of one graph, apart by the convolution that has a choice; the empty key: the rest.
using UsesByKey = std::map<std::string, std::vector<TaskUse>>;

class ProblemBuilder {
 public:
  ProblemBuilder(const task::PartitionOptions& partition, std::function<bool()> late)
      : partition_(partition), late_(std::move(late)) {}

  Result<void> add(const TuneSubject& subject) {
    subject_ = problem_.subjects.size();
    problem_.subjects.push_back(subject);
    problem_.imported.emplace_back();
    return subject.is_op ? add_op() : add_model();
  }

  // What else the models could be made of.
  Result<void> add_alternatives() {
    if (any_has(plan::PointKind::kAlgorithm)) TESSERA_DO(add_algorithms());
    if (any_has(plan::PointKind::kMerge)) TESSERA_DO(add_merging());
    return {};
  }

  std::size_t subject() const { return subject_; }  // that it looked at last
  TuneProblem take() { return std::move(problem_); }

 private:
  // A model as the rules decide.
  struct Untuned {
    std::size_t subject;
    UsesByKey uses;
    std::vector<plan::Decided> decided;

    bool has(plan::PointKind kind) const {
      return std::any_of(decided.begin(), decided.end(),
                         [&](const plan::Decided& d) { return d.point.kind == kind; });
    }
  };

  bool any_has(plan::PointKind kind) const {
    return std::any_of(untuned_.begin(), untuned_.end(),
                       [&](const Untuned& model) { return model.has(kind); });
  }

  // True: there is no time for this value.
  bool leaves_out(const std::string& value) {
    const bool late = !problem_.left_out.empty() || (late_ && late_());
    if (late) problem_.left_out.push_back(value);
    return late;
  }

  std::size_t add_task(task::Task task, const std::string& algorithm) {
    const auto [it, added] = by_key_.try_emplace(task.key, problem_.tasks.size());
    if (added) problem_.tasks.push_back({std::move(task), algorithm});
    std::string& known = problem_.tasks[it->second].algorithm;
    if (known.empty()) known = algorithm;
    return it->second;
  }

  static void add_use(std::vector<TaskUse>& uses, const TaskUse& use) {
    for (TaskUse& u : uses) {
      if (u.task != use.task || u.subject != use.subject) continue;
      u.count += use.count;
      return;
    }
    uses.push_back(use);
  }

  Result<UsesByKey> uses_of(const task::PlannedGraph& planned, const std::string& algorithm) {
    const graph::Graph& graph = planned.graph;
    UsesByKey uses;
    std::map<std::pair<std::string, std::size_t>, std::size_t> known;  // key and task: its use
    for (const task::Call& call : planned.tasks.calls) {
      std::string key;
      for (const std::int32_t n : planned.tasks.groups[call.group].nodes) {
        const auto k = algorithm_key(graph, graph.nodes[static_cast<std::size_t>(n)]);
        if (k) key = *k;
      }
      const std::size_t task =
          add_task(planned.tasks.tasks[call.task], key.empty() ? "" : algorithm);
      std::vector<TaskUse>& of_key = uses[key];
      const auto [use, added] = known.try_emplace({key, task}, of_key.size());
      if (added) of_key.push_back({task, subject_, 0});
      ++of_key[use->second].count;
    }
    return uses;
  }

  // The tasks of a value, which the point of that key has from then on.
  std::vector<TaskUse>& uses_of_value(plan::PointKind kind, const std::string& key,
                                      const std::string& name) {
    const auto [known, added] = point_of_.try_emplace(key, problem_.points.size());
    if (added) {
      problem_.points.push_back({{.name = key, .kind = kind, .values = {}, .labels = {}}, {}});
    }
    TunePoint& p = problem_.points[known->second];
    const auto it = std::find(p.point.labels.begin(), p.point.labels.end(), name);
    if (it != p.point.labels.end())
      return p.uses[static_cast<std::size_t>(it - p.point.labels.begin())];
    p.point.values.push_back({std::ssize(p.uses)});
    p.point.labels.push_back(name);
    return p.uses.emplace_back();
  }

  void add_value(plan::PointKind kind, const std::string& key, const std::string& name,
                 const std::vector<TaskUse>& uses) {
    std::vector<TaskUse>& all = uses_of_value(kind, key, name);
    for (const TaskUse& use : uses) add_use(all, use);
  }

  void prefer(const std::string& key, const std::string& name) {
    const auto known = point_of_.find(key);
    if (known == point_of_.end()) return;
    decide::Point& p = problem_.points[known->second].point;
    const auto it = std::find(p.labels.begin(), p.labels.end(), name);
    if (it != p.labels.end()) p.preferred = static_cast<std::int32_t>(it - p.labels.begin());
  }

  // The model with the rules' decisions but for those given.
  Result<task::PlannedGraph> planned(plan::Decisions given) const {
    const TuneSubject& subject = problem_.subjects[subject_];
    graph::PassOptions passes = passes_for(subject.compile);
    passes.shapes_only = true;
    return task::apply_plan(problem_.imported[subject_], passes, partition_,
                            plan::Decider(std::move(given)));
  }

  Result<void> add_model() {
    const TuneSubject& subject = problem_.subjects[subject_];
    TESSERA_TRY(problem_.imported[subject_], import_graph(subject.name, subject.compile));
    TESSERA_TRY(task::PlannedGraph untuned, planned({}));
    TESSERA_TRY(UsesByKey uses, uses_of(untuned, ""));
    if (const auto rest = uses.find(""); rest != uses.end()) {
      for (const TaskUse& use : rest->second) problem_.base.push_back(use);
    }
    untuned_.push_back({subject_, std::move(uses), std::move(untuned.decided)});
    return {};
  }

  // The algorithms of every convolution that has several: all of them with one after the other.
  Result<void> add_algorithms() {
    const plan::KindInfo& kind = plan::info(plan::PointKind::kAlgorithm);
    for (const std::string& name : kind.values) {
      if (leaves_out(name)) continue;
      for (const Untuned& model : untuned_) {
        if (!model.has(plan::PointKind::kAlgorithm)) continue;
        subject_ = model.subject;
        TESSERA_TRY(const task::PlannedGraph variant, planned({{kind.family, name}}));
        TESSERA_TRY(const UsesByKey uses, uses_of(variant, name));
        for (const auto& [key, tasks] : uses) {
          if (!key.empty()) add_value(plan::PointKind::kAlgorithm, key, name, tasks);
        }
      }
    }
    if (!problem_.left_out.empty()) add_preferred();
    for (const Untuned& model : untuned_) {
      for (const plan::Decided& d : model.decided) prefer(d.point.name, d.text());
    }
    return {};
  }

  // What the rules decide is a value though its turn did not come. Where it is the only one, there
  // is nothing to decide.
  void add_preferred() {
    std::set<std::string> keys;
    for (const Untuned& model : untuned_) {
      for (const plan::Decided& d : model.decided) {
        const auto uses = model.uses.find(d.point.name);
        if (d.point.kind != plan::PointKind::kAlgorithm || uses == model.uses.end()) continue;
        keys.insert(d.point.name);
        const std::vector<std::string>& left_out = problem_.left_out;
        if (std::find(left_out.begin(), left_out.end(), d.text()) == left_out.end()) continue;
        label(uses->second, d.text());
        add_value(d.point.kind, d.point.name, d.text(), uses->second);
      }
    }
    std::vector<TunePoint> points = std::exchange(problem_.points, {});
    point_of_.clear();
    for (TunePoint& p : points) {
      if (p.values() > 1 || !keys.contains(p.point.name)) {
        point_of_[p.point.name] = problem_.points.size();
        problem_.points.push_back(std::move(p));
        continue;
      }
      label(p.of(0), "");
      for (const TaskUse& use : p.of(0)) problem_.base.push_back(use);
    }
  }

  Result<void> add_merging() {
    if (leaves_out(plan::kMerged)) return {};
    for (const Untuned& model : untuned_) {
      subject_ = model.subject;
      if (model.has(plan::PointKind::kMerge)) TESSERA_DO(add_merged());
    }
    return {};
  }

  // Contractions of one input in one kernel: the tasks that differ are those of the two values.
  Result<void> add_merged() {
    const char* family = plan::info(plan::PointKind::kMerge).family;
    TESSERA_TRY(const task::PlannedGraph model, planned({{family, plan::kMerged}}));
    TESSERA_TRY(const UsesByKey uses, uses_of(model, ""));
    std::map<std::size_t, int> more;
    if (const auto rest = uses.find(""); rest != uses.end()) {
      for (const TaskUse& use : rest->second) more[use.task] += use.count;
    }
    for (const TaskUse& use : problem_.base) {
      if (use.subject == subject_) more[use.task] -= use.count;
    }
    std::vector<TaskUse> merged, separate;
    for (const auto& [task, count] : more) {
      if (count > 0) merged.push_back({task, subject_, count});
      if (count < 0) separate.push_back({task, subject_, -count});
    }
    if (merged.empty() || separate.empty()) return {};
    for (const TaskUse& s : separate) {
      for (TaskUse& use : problem_.base) {
        if (use.subject == subject_ && use.task == s.task) use.count -= s.count;
      }
    }
    std::erase_if(problem_.base, [](const TaskUse& use) { return use.count == 0; });
    label(separate, plan::kSeparate);
    label(merged, plan::kMerged);
    add_value(plan::PointKind::kMerge, family, plan::kSeparate, separate);
    add_value(plan::PointKind::kMerge, family, plan::kMerged, merged);
    prefer(family, plan::kSeparate);
    return {};
  }

  void label(const std::vector<TaskUse>& uses, const std::string& algorithm) {
    for (const TaskUse& use : uses) problem_.tasks[use.task].algorithm = algorithm;
  }

  Result<void> add_op() {
    const bool fixed = names_algorithm(problem_.subjects.back().name);
    const plan::Rules rules = plan::rules_for(problem_.subjects.back().compile.target);
    TESSERA_TRY(const te::OpSpec spec, parse_op(problem_.subjects.back().name, rules));
    problem_.subjects.back().name = te::to_text(spec);
    const decide::Point point = op_point(spec, rules, fixed);
    // With one algorithm there is nothing to choose; one that the user chose is in the plan.
    if (point.labels.size() < (fixed ? 1 : 2)) {
      TESSERA_TRY(const std::size_t task, op_task(spec, ""));
      problem_.base.push_back({task, subject_, 1});
      return {};
    }
    for (const std::string& name : point.labels) {
      te::OpSpec variant = spec;
      variant.words["algo"] = name;
      TESSERA_TRY(const std::size_t task, op_task(variant, name));
      add_value(point.kind, point.name, name, {{task, subject_, 1}});
    }
    prefer(point.name, point.label(point.preferred));
    return {};
  }

  Result<std::size_t> op_task(const te::OpSpec& spec, const std::string& algorithm) {
    task::Task task;
    TESSERA_TRY(task.dag, te::make_dag(spec));
    TESSERA_TRY(const te::OpWork work, te::op_work(spec));
    task.key = task::key_of(task.dag);
    task.name = spec.op;
    task.flops = work.flops;
    task.bytes = work.bytes;
    return add_task(std::move(task), algorithm);
  }

  task::PartitionOptions partition_;
  std::function<bool()> late_;
  TuneProblem problem_;
  std::vector<Untuned> untuned_;
  std::size_t subject_ = 0;
  std::map<std::string, std::size_t> by_key_, point_of_;  // tasks, points
};

}  // namespace

Result<te::OpSpec> parse_op(const std::string& text, const plan::Rules& rules) {
  TESSERA_TRY(te::OpSpec spec, te::parse_op_spec(text));
  if (!has_choice(spec) || names_algorithm(text)) return spec;
  const decide::Point point = op_point(spec, rules, false);
  if (!point.labels.empty()) spec.words["algo"] = point.label(point.preferred);
  return spec;
}

std::string op_key(const te::OpSpec& spec) {
  te::OpSpec plain = spec;
  if (plain.words.contains("algo")) plain.words["algo"] = plan::kDirect;
  return te::to_text(plain);
}

Result<PlannedOp> planned_op(const te::OpSpec& spec, const plan::Plan& plan) {
  PlannedOp out;
  out.spec = spec;
  const auto algorithm = plan.decisions.find(op_key(spec));
  if (algorithm != plan.decisions.end()) out.spec.words["algo"] = algorithm->second;
  TESSERA_TRY(const te::Dag dag, te::make_dag(out.spec));
  out.key = task::key_of(dag);
  if (const plan::PlanEntry* entry = plan.find(out.key)) out.schedule = entry->schedule;
  return out;
}

Result<TuneProblem> make_tune_problem(const std::vector<TuneSubject>& subjects,
                                      const task::PartitionOptions& partition,
                                      const std::function<bool()>& late) {
  ProblemBuilder builder(partition, late);
  for (const TuneSubject& subject : subjects) {
    const Result<void> added = builder.add(subject);
    if (!added) return about_model(added.error(), subject.name);
  }
  const Result<void> added = builder.add_alternatives();
  if (!added) return about_model(added.error(), subjects[builder.subject()].name);
  return builder.take();
}

}  // namespace tessera::app
