// A task: one kernel to build, as a tensor expression with a key that is the same on every machine.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/frontend/task/partition.h"
#include "tessera/lang/te/dag.h"

namespace tessera::task {

struct Task {
  std::string key;   // 16 hex digits of the definition
  std::string name;  // for people: "conv+add+max"
  te::Dag dag;       // inputs in the order of Group::inputs without the inlined scalars
  double flops = 0;
  double bytes = 0;  // inputs + outputs, each once
  int weight = 0;    // how many groups of the model it computes
};

// A group with its task: `params` are the values behind dag.inputs, in order.
struct Call {
  std::size_t group = 0;  // index into TaskGraph::groups
  std::size_t task = 0;   // index into TaskGraph::tasks
  std::vector<graph::ValueId> params;
};

// The whole model as groups, and the distinct tasks behind its kernels.
struct TaskGraph {
  std::vector<Group> groups;                // in running order
  std::vector<Task> tasks;                  // in order of first use
  std::vector<std::int32_t> call_of_group;  // index into calls, -1 for groups without a kernel
  std::vector<Call> calls;
  std::string launches = plan::kTimed;  // how a device that records them runs the kernels
};

// 16 hex digits of the canonical definition: the order of operands that commute and of nodes, and
// the names of a model, do not matter.
std::string key_of(const te::Dag& dag);

Result<TaskGraph> extract_tasks(const graph::Graph& graph, const PartitionOptions& options = {});

// What the plan says of TaskGraph::launches; devices that record nothing are asked nothing.
Result<std::string> decide_launches(const graph::PassOptions& options);

// A model with everything decided but the schedules: what builds and tuners start from.
struct PlannedGraph {
  graph::Graph graph;  // as the passes left it
  TaskGraph tasks;
  std::vector<plan::Decided> decided;  // every point, in the order of asking
};

// Rewrites `imported` and cuts it into tasks, every decision by `decider`. A point's values are
// those that are legal after what was decided before it, so any answer gives a model that computes
// the same up to rounding.
Result<PlannedGraph> apply_plan(graph::Graph imported, graph::PassOptions passes,
                                PartitionOptions partition, plan::Decider decider);

}  // namespace tessera::task
