#include "tessera/task/task.h"

#include <map>
#include <set>

#include "tessera/ir/visitor.h"
#include "tessera/support/hash.h"
#include "tessera/te/canonical.h"
#include "tessera/te/split_axes.h"

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

// Scalars that became immediates are read by nothing: they are no parameters.
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

}  // namespace

Result<te::Dag> define_group(const graph::Graph& graph, const Group& group,
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
  te::Canonical canonical = te::canonicalize(dag);
  std::vector<ValueId> sorted;
  for (const std::size_t i : canonical.inputs) sorted.push_back((*params)[i]);
  *params = std::move(sorted);
  TESSERA_DO(te::verify(canonical.dag));
  return std::move(canonical.dag);
}

std::string key_of(const te::Dag& dag) {
  return to_hex(hash_bytes(te::to_text(te::canonicalize(dag).dag)));
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
  out.decided = shared->decided();
  return out;
}

Result<TaskGraph> extract_tasks(const graph::Graph& graph, const PartitionOptions& options) {
  TaskGraph out;
  TESSERA_TRY(out.groups, partition(graph, options));
  std::map<std::string, std::size_t> by_text;
  for (std::size_t g = 0; g < out.groups.size(); ++g) {
    out.call_of_group.push_back(-1);
    if (out.groups[g].kind != GroupKind::kKernel) continue;
    Call call;
    call.group = g;
    TESSERA_TRY(te::Dag dag, define_group(graph, out.groups[g], &call.params));
    const std::string text = te::to_text(dag);
    const auto [it, added] = by_text.try_emplace(text, out.tasks.size());
    if (added) {
      Task task;
      task.key = key_of(dag);
      task.name = dag.name;
      task.flops = te::flop_count(dag);
      task.bytes = io_bytes(dag);
      task.dag = std::move(dag);
      out.tasks.push_back(std::move(task));
    }
    call.task = it->second;
    ++out.tasks[call.task].weight;
    out.call_of_group.back() = static_cast<std::int32_t>(out.calls.size());
    out.calls.push_back(std::move(call));
  }
  return out;
}

}  // namespace tessera::task
