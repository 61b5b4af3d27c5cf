#include "tessera/driver/tune/tune_problem.h"

#include <algorithm>
#include <map>

#include "tessera/driver/compile/load_graph.h"
#include "tessera/graph/passes/algorithms.h"
#include "tessera/support/hash.h"

namespace tessera::driver {
namespace {

// Uses of one graph, apart by the convolution that has a choice; the empty signature: the rest.
using UsesBySignature = std::map<std::string, std::vector<TaskUse>>;

// As task::extract_tasks makes it.
std::string key_of(const te::Dag& dag) { return to_hex(hash_bytes(te::to_text(dag))); }

class ProblemBuilder {
 public:
  explicit ProblemBuilder(const task::PartitionOptions& partition) : partition_(partition) {}

  Result<void> add(const TuneSubject& subject) {
    subject_ = problem_.subjects.size();
    problem_.subjects.push_back(subject);
    return subject.is_op ? add_op() : add_model();
  }

  TuneProblem take() { return std::move(problem_); }

 private:
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

  Result<UsesBySignature> uses_of(const graph::Graph& graph, const std::string& algorithm) {
    TESSERA_TRY(task::TaskGraph tasks, task::extract_tasks(graph, partition_));
    UsesBySignature uses;
    for (const task::Call& call : tasks.calls) {
      std::string signature;
      for (const std::int32_t n : tasks.groups[call.group].nodes) {
        const auto s = algorithm_signature(graph, graph.nodes[static_cast<std::size_t>(n)]);
        if (s) signature = *s;
      }
      const std::size_t task = add_task(tasks.tasks[call.task], signature.empty() ? "" : algorithm);
      add_use(uses[signature], {task, subject_, 1});
    }
    return uses;
  }

  // The option of the choice with that signature, both made when absent.
  TuneOption& option(const std::string& signature, const std::string& name) {
    auto choice = std::find_if(problem_.choices.begin(), problem_.choices.end(),
                               [&](const TuneChoice& c) { return c.signature == signature; });
    if (choice == problem_.choices.end()) {
      problem_.choices.push_back({signature, {}, 0});
      choice = problem_.choices.end() - 1;
    }
    for (TuneOption& o : choice->options) {
      if (o.name == name) return o;
    }
    choice->options.push_back({name, {}});
    return choice->options.back();
  }

  void add_option(const std::string& signature, const std::string& name,
                  const std::vector<TaskUse>& uses) {
    TuneOption& o = option(signature, name);
    for (const TaskUse& use : uses) add_use(o.uses, use);
  }

  void prefer(const std::string& signature, const std::string& name) {
    for (TuneChoice& c : problem_.choices) {
      if (c.signature != signature) continue;
      for (std::size_t i = 0; i < c.options.size(); ++i) {
        if (c.options[i].name == name) c.preferred = i;
      }
    }
  }

  static Result<graph::Graph> optimized(const graph::Graph& imported,
                                        const graph::PassOptions& passes) {
    graph::Graph graph = imported;
    TESSERA_DO(graph::optimize(graph, passes));
    return graph;
  }

  Result<void> add_model() {
    const TuneSubject subject = problem_.subjects.back();
    LoadOptions plain = subject.load;
    plain.optimize = false;
    TESSERA_TRY(const graph::Graph imported, load_graph(subject.name, plain));
    graph::PassOptions before = subject.load.passes;
    before.skip.push_back("select_algorithms");
    TESSERA_TRY(const graph::Graph unselected, optimized(imported, before));
    const std::vector<graph::AlgorithmChoice> choices =
        algorithm_choices(unselected, subject.load.passes);

    TESSERA_TRY(const graph::Graph untuned, optimized(imported, subject.load.passes));
    TESSERA_TRY(const UsesBySignature uses, uses_of(untuned, ""));
    if (const auto rest = uses.find(""); rest != uses.end()) {
      for (const TaskUse& use : rest->second) problem_.base.push_back(use);
    }
    std::vector<std::string> names;
    for (const graph::AlgorithmChoice& c : choices) {
      for (const std::string& name : c.options) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
    for (const std::string& name : names) {
      graph::PassOptions passes = subject.load.passes;
      for (const graph::AlgorithmChoice& c : choices) passes.algorithms[c.signature] = name;
      TESSERA_TRY(const graph::Graph graph, optimized(imported, passes));
      TESSERA_TRY(const UsesBySignature variant, uses_of(graph, name));
      for (const auto& [signature, tasks] : variant) {
        if (!signature.empty()) add_option(signature, name, tasks);
      }
    }
    for (const graph::AlgorithmChoice& c : choices) prefer(c.signature, c.preferred);
    return add_merging(imported, subject.load.passes);
  }

  // Contractions of one input in one kernel: the tasks that differ are the two options.
  Result<void> add_merging(const graph::Graph& imported, graph::PassOptions passes) {
    passes.algorithms[graph::kContractions] = graph::kMerged;
    TESSERA_TRY(const graph::Graph graph, optimized(imported, passes));
    TESSERA_TRY(const UsesBySignature uses, uses_of(graph, ""));
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
    label(separate, graph::kSeparate);
    label(merged, graph::kMerged);
    add_option(graph::kContractions, graph::kSeparate, separate);
    add_option(graph::kContractions, graph::kMerged, merged);
    prefer(graph::kContractions, graph::kSeparate);
    return {};
  }

  void label(const std::vector<TaskUse>& uses, const char* algorithm) {
    for (const TaskUse& use : uses) problem_.tasks[use.task].algorithm = algorithm;
  }

  Result<void> add_op() {
    TESSERA_TRY(const te::OpSpec spec, parse_op(problem_.subjects.back().name));
    problem_.subjects.back().name = te::to_text(spec);
    const auto algo = spec.words.find("algo");
    if (algo == spec.words.end()) {
      TESSERA_TRY(const std::size_t task, op_task(spec, ""));
      problem_.base.push_back({task, subject_, 1});
      return {};
    }
    const std::string preferred = algo->second;
    for (const char* name : {"direct", "winograd2", "winograd4", "winograd6"}) {
      te::OpSpec variant = spec;
      variant.words["algo"] = name;
      const Result<std::size_t> task = op_task(variant, name);
      if (task) {
        add_option(op_signature(spec), name, {{*task, subject_, 1}});
      } else if (preferred == name) {
        return task.error();
      }
    }
    prefer(op_signature(spec), preferred);
    // With one algorithm there is nothing to choose.
    if (problem_.choices.back().options.size() == 1) {
      for (const TaskUse& use : problem_.choices.back().options[0].uses) {
        problem_.base.push_back(use);
      }
      problem_.choices.pop_back();
    }
    return {};
  }

  Result<std::size_t> op_task(const te::OpSpec& spec, const std::string& algorithm) {
    task::Task task;
    TESSERA_TRY(task.dag, te::make_dag(spec));
    TESSERA_TRY(const te::OpWork work, te::op_work(spec));
    task.key = key_of(task.dag);
    task.name = spec.op;
    task.flops = work.flops;
    task.bytes = work.bytes;
    return add_task(std::move(task), algorithm);
  }

  task::PartitionOptions partition_;
  TuneProblem problem_;
  std::size_t subject_ = 0;
  std::map<std::string, std::size_t> by_key_;
};

}  // namespace

Result<te::OpSpec> parse_op(const std::string& text) {
  TESSERA_TRY(te::OpSpec spec, te::parse_op_spec(text));
  const bool named =
      text.find(":algo=") != std::string::npos || text.find(",algo=") != std::string::npos;
  if (!spec.words.contains("algo") || named || spec.dtype != DType::kF32) return spec;
  te::OpSpec transformed = spec;
  transformed.words["algo"] = "winograd4";
  const Result<te::Dag> dag = te::make_dag(transformed);
  if (!dag) return spec;  // other windows, strides, groups or layouts: there is no choice
  const Shape& out = dag->outputs[0]->shape;
  spec.words["algo"] = graph::preferred_convolution(spec.ints.at("CI"), spec.ints.at("CO"), out,
                                                    passes_for(target::host()));
  return spec;
}

std::string op_signature(const te::OpSpec& spec) {
  te::OpSpec plain = spec;
  if (plain.words.contains("algo")) plain.words["algo"] = "direct";
  return te::to_text(plain);
}

Result<PlannedOp> planned_op(const te::OpSpec& spec, const record::Plan& plan) {
  PlannedOp out;
  out.spec = spec;
  const auto algorithm = plan.algorithms.find(op_signature(spec));
  if (algorithm != plan.algorithms.end()) out.spec.words["algo"] = algorithm->second;
  TESSERA_TRY(const te::Dag dag, te::make_dag(out.spec));
  out.key = key_of(dag);
  if (const record::PlanEntry* entry = plan.find(out.key)) out.schedule = entry->schedule;
  return out;
}

Result<TuneProblem> make_tune_problem(const std::vector<TuneSubject>& subjects,
                                      const task::PartitionOptions& partition) {
  ProblemBuilder builder(partition);
  for (const TuneSubject& subject : subjects) {
    const Result<void> added = builder.add(subject);
    if (!added) return added.error().with_context(subject.name);
  }
  return builder.take();
}

}  // namespace tessera::driver
