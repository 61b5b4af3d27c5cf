// Cuts a graph into groups of nodes that each become one kernel.
#pragma once

#include <memory>
#include <vector>

#include "tessera/frontend/graph/op.h"
#include "tessera/frontend/plan/convolution.h"
#include "tessera/frontend/plan/decider.h"

namespace tessera::task {

enum class GroupKind : std::uint8_t {
  kKernel,  // one compiled function
  kHost,    // one host operator
  kAlias,   // one reshape: its output shares the memory of its input
  kEmpty,   // outputs without elements: nothing to compute
};

struct Group {
  GroupKind kind = GroupKind::kKernel;
  std::vector<std::int32_t> nodes;      // indices into graph.nodes, ascending
  std::vector<graph::ValueId> inputs;   // read from outside, constants included, in order of use
  std::vector<graph::ValueId> outputs;  // read outside or outputs of the graph
};

struct PartitionOptions {
  bool fuse = true;    // false: every node alone
  int max_nodes = 64;  // of one kernel: bounds its compile time
  // Attention over at most so many keys is one kernel; 0: none is.
  std::int64_t attention_keys = 0;
  bool moves_inside = false;  // as plan::Rules says
  // Asked of every value that could stay inside a kernel ("fuse add of NODE": null, it does), and
  // of what could be prepared in the kernel of a contraction ("front add of NODE": null, it is
  // stored, but for moves_inside).
  std::shared_ptr<plan::Decider> decider;

  void follow(const plan::Rules& rules) {
    attention_keys = rules.attention_keys;
    moves_inside = rules.moves_inside;
  }
};

// Groups in an order in which they can run. A group has at most one contraction, window or
// reduction; pointwise nodes join it behind (epilogue) when every reader of the value between them
// joins too, and in front of reductions and data movement when nothing else reads them. Attention
// has two contractions, around its softmax.
// kInvalidArgument: what was decided about a value is not such a decision.
Result<std::vector<Group>> partition(const graph::Graph& graph,
                                     const PartitionOptions& options = {});

}  // namespace tessera::task
