#include "tessera/frontend/task/task.h"

#include <map>
#include <set>

#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/lang/te/canonical.h"
#include "tessera/lang/te/split_axes.h"
#include "tessera/support/hash.h"

namespace tessera::task {
namespace {

using graph::kNoValue;
using graph::Node;
using graph::ValueId;

// Stage names follow from the operators of the group, so equal groups have equal text.
class StageNames {
 public:
  std::string next(const std::string& op) {
    const int n = ++count_[op];
    return n == 1 ? op : op + "_" + std::to_string(n);
  }

 private:
  std::map<std::string, int> count_;
};

// Scalars that became immediates are read by nothing: they are not parameters.
void drop_unread_inputs(te::Dag& dag, std::vector<ValueId>* params) {
  std::set<ir::Buffer> loaded;
  for (const te::Op& op : dag.ops) {
    for (const ir::Expr& value : op.values) {
      ir::for_each_expr(value, [&](const ir::Expr& e) {
        if (const auto* load = e.as<ir::Load>()) loaded.insert(load->buffer);
      });
    }
  }
  std::vector<te::Input> inputs;
  std::vector<ValueId> kept;
  for (std::size_t i = 0; i < dag.inputs.size(); ++i) {
    if (loaded.count(dag.inputs[i].buffer) == 0) continue;
    inputs.push_back(dag.inputs[i]);
    kept.push_back((*params)[i]);
  }
  dag.inputs = std::move(inputs);
  *params = std::move(kept);
}

double io_bytes(const te::Dag& dag) {
  double bytes = 0;
  for (const te::Input& in : dag.inputs) {
    bytes += static_cast<double>(in.buffer.size()) * size_bytes(in.buffer->dtype);
  }
  for (const ir::Buffer& out : dag.outputs) {
    bytes += static_cast<double>(out.size()) * size_bytes(out->dtype);
  }
  return bytes;
}

// As its nodes are written, in the order of the group.
Result<te::Dag> write_group(const graph::Graph& graph, const Group& group,
                            std::vector<ValueId>* params) {
  te::DagBuilder b("");
  std::map<ValueId, ir::Buffer> buffers;
  StageNames names;
  for (const ValueId id : group.inputs) {
    const graph::TensorType& type = graph.type(id);
    const std::string name = fmt::format("p{}", params->size());
    const bool constant = graph.value(id).is_constant;
    buffers[id] =
        constant ? b.constant(name, type.dtype, type.shape) : b.input(name, type.dtype, type.shape);
    params->push_back(id);
  }
  for (const std::int32_t n : group.nodes) {
    const Node& node = graph.nodes[static_cast<std::size_t>(n)];
    std::vector<ir::Buffer> inputs;
    for (const ValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? ir::Buffer() : buffers.at(id));
    }
    auto outputs = node.op->define(b, names.next(node.op->name), graph::view(graph, node), inputs);
    if (!outputs) return outputs.error().with_context(node.origin);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      buffers[node.outputs[i]] = (*outputs)[i];
    }
  }
  std::vector<ir::Buffer> results;
  for (const ValueId id : group.outputs) results.push_back(buffers.at(id));
  te::Dag dag = te::split_merged_axes(b.build(results));
  drop_unread_inputs(dag, params);
  return dag;
}

std::vector<ValueId> picked(const std::vector<ValueId>& params,
                            const std::vector<std::size_t>& picks) {
  std::vector<ValueId> out;
  for (const std::size_t i : picks) out.push_back(params[i]);
  return out;
}

}  // namespace

std::string key_of(const te::Dag& dag) {
  return to_hex(hash_bytes(te::to_text(te::canonicalize(dag).dag)));
}

Result<std::string> decide_launches(const graph::PassOptions& options) {
  if (!options.rules.records_launches) return std::string(plan::kTimed);
  return graph::decide(options,
                       plan::make_point(plan::PointKind::kLaunch, "launches", plan::kTimed));
}

Result<PlannedGraph> apply_plan(graph::Graph imported, graph::PassOptions passes,
                                PartitionOptions partition, plan::Decider decider) {
  const auto shared = std::make_shared<plan::Decider>(std::move(decider));
  passes.decider = partition.decider = shared;
  partition.follow(passes.rules);
  PlannedGraph out;
  out.graph = std::move(imported);
  TESSERA_DO(graph::optimize(out.graph, passes));
  TESSERA_TRY(out.tasks, extract_tasks(out.graph, partition));
  TESSERA_TRY(out.tasks.launches, decide_launches(passes));
  out.decided = shared->decided();
  return out;
}

namespace {

// Collects the distinct tasks of a model. Groups are mostly written alike, too: those are looked
// into once.
class TaskList {
 public:
  explicit TaskList(TaskGraph* out) : out_(*out) {}

  Result<void> add(const graph::Graph& graph, std::size_t group) {
    Call call;
    call.group = group;
    TESSERA_TRY(const te::Dag dag, write_group(graph, out_.groups[group], &call.params));
    const std::string text = te::to_text(dag);
    auto known = written_.find(text);
    if (known == written_.end()) {
      TESSERA_TRY(Written added, look_into(dag));
      known = written_.emplace(text, std::move(added)).first;
    }
    call.task = known->second.task;
    call.params = picked(call.params, known->second.inputs);
    ++out_.tasks[call.task].weight;
    out_.call_of_group.back() = static_cast<std::int32_t>(out_.calls.size());
    out_.calls.push_back(std::move(call));
    return {};
  }

 private:
  struct Written {
    std::size_t task;
    std::vector<std::size_t> inputs;  // of the task, as the group is written
  };

  Result<Written> look_into(const te::Dag& written) {
    te::Canonical canonical = te::canonicalize(written);
    TESSERA_DO(te::verify(canonical.dag));
    te::Dag& dag = canonical.dag;
    const auto [it, added] = tasks_.try_emplace(te::to_text(dag), out_.tasks.size());
    if (added) {
      Task task;
      task.key = key_of(dag);
      task.name = dag.name;
      task.flops = te::flop_count(dag);
      task.bytes = io_bytes(dag);
      task.dag = std::move(dag);
      out_.tasks.push_back(std::move(task));
    }
    return Written{it->second, std::move(canonical.inputs)};
  }

  TaskGraph& out_;
  std::map<std::string, Written> written_;    // by the text of groups
  std::map<std::string, std::size_t> tasks_;  // by that of tasks
};

}  // namespace

Result<TaskGraph> extract_tasks(const graph::Graph& graph, const PartitionOptions& options) {
  TaskGraph out;
  TESSERA_TRY(out.groups, partition(graph, options));
  TaskList tasks(&out);
  for (std::size_t g = 0; g < out.groups.size(); ++g) {
    out.call_of_group.push_back(-1);
    if (out.groups[g].kind == GroupKind::kKernel) TESSERA_DO(tasks.add(graph, g));
  }
  return out;
}

}  // namespace tessera::task
