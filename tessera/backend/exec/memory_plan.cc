#include "tessera/backend/exec/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "tessera/support/planted.h"

namespace tessera::exec {
namespace {

using graph::kNoValue;
using graph::ValueId;

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

struct Block {
  ValueId root = kNoValue;         // or
  std::size_t group = 0, nth = 0;  // a temporary of a group
  std::int64_t bytes = 0;
  int first = 0, last = 0;         // groups, inclusive
  std::vector<std::size_t> users;  // all of them
  std::int64_t offset = 0;
};

class Planner {
 public:
  Planner(const graph::Graph& graph, const std::vector<task::Group>& groups,
          const MemoryOptions& options)
      : graph_(graph), groups_(groups), options_(options), root_(graph.values.size()) {
    std::iota(root_.begin(), root_.end(), 0);
    for (const auto& sizes : options.temporaries) plan_.temporaries.emplace_back(sizes.size());
    plan_.of_value.resize(graph.values.size());
    if (options.side_by_side > 0) order_.emplace(order_of(graph, groups));
  }

  MemoryPlan run() {
    for (const task::Group& g : groups_) {
      if (g.kind == task::GroupKind::kAlias) {
        root_[at(g.outputs.at(0))] = root_[at(g.inputs.at(0))];
      }
    }
    place_callers_memory();
    place_arena();
    for (std::size_t v = 0; v < root_.size(); ++v) {
      plan_.of_value[v] = plan_.of_value[at(root_[v])];
      if (elements(graph_.values[v].type.shape) == 0) plan_.of_value[v] = {};
    }
    return std::move(plan_);
  }

 private:
  std::int64_t aligned(std::int64_t bytes) const {
    return (bytes + options_.alignment - 1) / options_.alignment * options_.alignment;
  }
  std::int64_t stored_bytes(const graph::TensorType& type) const {
    return aligned(elements(type.shape) * size_bytes(type.dtype));
  }

  void place_callers_memory() {
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].is_constant) plan_.of_value[v] = {Place::kConstant, v};
    }
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      plan_.of_value[at(graph_.inputs[i])] = {Place::kInput, i};
    }
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (elements(graph_.shape(graph_.outputs[i])) == 0) continue;
      Storage& storage = plan_.of_value[at(root_[at(graph_.outputs[i])])];
      if (storage.place == Place::kNone) {
        storage = {Place::kOutput, i};
      } else {
        plan_.copies.push_back({graph_.outputs[i], i});
      }
    }
  }

  std::vector<Block> find_blocks() const {
    std::vector<Block> blocks;
    std::vector<int> block_of(graph_.values.size(), -1);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const auto* ids : {&groups_[g].inputs, &groups_[g].outputs}) {
        for (const ValueId id : *ids) {
          const ValueId root = root_[at(id)];
          if (plan_.of_value[at(root)].place != Place::kNone) continue;
          if (elements(graph_.shape(root)) == 0) continue;
          if (block_of[at(root)] < 0) {
            block_of[at(root)] = static_cast<int>(blocks.size());
            blocks.push_back({.root = root,
                              .bytes = stored_bytes(graph_.type(root)),
                              .first = static_cast<int>(g)});
          }
          Block& block = blocks[static_cast<std::size_t>(block_of[at(root)])];
          if (planted(6) && id != root) continue;
          block.last = static_cast<int>(g);
          if (groups_[g].kind != task::GroupKind::kAlias) block.users.push_back(g);
        }
      }
    }
    for (std::size_t g = 0; g < options_.temporaries.size(); ++g) {
      for (std::size_t i = 0; i < options_.temporaries[g].size(); ++i) {
        blocks.push_back({.group = g,
                          .nth = i,
                          .bytes = aligned(options_.temporaries[g][i]),
                          .first = static_cast<int>(g),
                          .last = static_cast<int>(g),
                          .users = {g}});
      }
    }
    return blocks;
  }

  // Whether two blocks may be in use at the same time.
  bool together(const Block& a, const Block& b) const {
    if (order_) return !ends_before(a, b) && !ends_before(b, a);
    return a.first <= b.last && b.first <= a.last;
  }
  bool ends_before(const Block& a, const Block& b) const {
    return std::all_of(a.users.begin(), a.users.end(), [&](std::size_t user) {
      return order_->before(user, static_cast<std::size_t>(b.first));
    });
  }

  void place_arena() {
    std::vector<Block> blocks = find_blocks();
    std::vector<std::int64_t> live(groups_.size() + 1, 0);
    for (const Block& b : blocks) {
      for (int g = b.first; g <= b.last; ++g) live[static_cast<std::size_t>(g)] += b.bytes;
    }
    plan_.live_bytes = *std::max_element(live.begin(), live.end());
    std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.first < b.first;
    });
    std::vector<Block> placed;  // by offset
    for (Block& b : blocks) {
      std::int64_t offset = 0;
      for (const Block& other : placed) {
        if (!together(other, b)) continue;
        if (other.offset >= offset + b.bytes) break;
        offset = std::max(offset, other.offset + other.bytes);
      }
      b.offset = offset;
      plan_.arena_bytes = std::max(plan_.arena_bytes, offset + b.bytes);
      Storage& storage =
          b.root == kNoValue ? plan_.temporaries[b.group][b.nth] : plan_.of_value[at(b.root)];
      storage = {Place::kArena, 0, offset, b.bytes};
      const auto where =
          std::upper_bound(placed.begin(), placed.end(), b,
                           [](const Block& x, const Block& y) { return x.offset < y.offset; });
      placed.insert(where, b);
    }
  }

  const graph::Graph& graph_;
  const std::vector<task::Group>& groups_;
  const MemoryOptions& options_;
  std::vector<ValueId> root_;
  std::optional<RunningOrder> order_;
  MemoryPlan plan_;
};

}  // namespace

RunningOrder order_of(const graph::Graph& graph, const std::vector<task::Group>& groups) {
  std::vector<std::size_t> memory(graph.values.size());  // 0: of the host
  std::iota(memory.begin(), memory.end(), 1);
  std::vector<std::vector<Touch>> steps;
  for (const task::Group& g : groups) {
    std::vector<Touch>& touches = steps.emplace_back();
    if (g.kind == task::GroupKind::kAlias) {
      memory[at(g.outputs.at(0))] = memory[at(g.inputs.at(0))];
      continue;
    }
    touches.push_back({0, 0, 1, g.kind == task::GroupKind::kHost});
    for (const ValueId id : g.inputs) touches.push_back({memory[at(id)], 0, 1, false});
    for (const ValueId id : g.outputs) touches.push_back({memory[at(id)], 0, 1, true});
  }
  return RunningOrder(steps);
}

MemoryPlan plan_memory(const graph::Graph& graph, const std::vector<task::Group>& groups,
                       const MemoryOptions& options) {
  MemoryPlan plan = Planner(graph, groups, options).run();
  if (options.side_by_side <= 0) return plan;
  MemoryOptions one_by_one = options;
  one_by_one.side_by_side = 0;
  MemoryPlan least = Planner(graph, groups, one_by_one).run();
  const double most = options.side_by_side * static_cast<double>(least.arena_bytes);
  const bool bounded = static_cast<double>(plan.arena_bytes) <= most &&
                       plan.arena_bytes <= least.arena_bytes + MemoryOptions::kMostMoreBytes;
  return bounded ? plan : least;
}

}  // namespace tessera::exec
