// For each permutation P that the graph transposes by: values that are transposed by P may be kept
// transposed, and so may all that is computed from or to them. The minimum cut moves transposes
// through the nodes between and cancels them; it never transposes more bytes than before.
#include <set>
#include <string_view>

#include "tessera/frontend/graph/passes/layout_choice.h"
#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::graph {
namespace {

// Chains of different permutations may open up one after the other. Every round saves bytes; the
// bounds are for the time of compilation, in which each try solves one cut.
constexpr int kMaxRounds = 32;
constexpr int kMaxTries = 128;

std::set<Permutation> permutations(const Graph& graph) {
  std::set<Permutation> found;
  for (const Node& node : graph.nodes) {
    if (!node.op->is(fact::kPermutes)) continue;
    found.insert(node.attrs.integers("perm"));
    found.insert(inverse(node.attrs.integers("perm")));
  }
  return found;
}

// What transposes by P read (`before`), and what transposes by its inverse write (`behind`).
Orders seed_orders(const Graph& graph, const Permutation& p, bool before, bool behind) {
  Orders orders(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (!node.op->is(fact::kPermutes)) continue;
    const Permutation& perm = node.attrs.integers("perm");
    if (before && perm == p && !graph.constant(node.inputs[0])) {
      orders[static_cast<std::size_t>(node.inputs[0])] = p;
    }
    if (behind && perm == inverse(p)) orders[static_cast<std::size_t>(node.outputs[0])] = p;
  }
  return orders;
}

// Convolutions that compute channels first do so because it was decided.
std::vector<LayoutPin> pins_of(const Graph& graph) {
  std::vector<LayoutPin> pins;
  for (const Node& node : graph.nodes) {
    pins.push_back(is_channels_first(node) ? LayoutPin::kFirst : LayoutPin::kFree);
  }
  return pins;
}

// Rewrites the graph if the orders that spread from these seeds save bytes.
Result<bool> try_orders(Graph& graph, Orders orders) {
  spread_orders(graph, find_uses(graph), orders);
  const LayoutChoice choice = choose_layouts(graph, orders, pins_of(graph));
  if (choice.bytes >= transposed_bytes(graph)) return false;
  TESSERA_DO(apply_layouts(graph, orders, choice));
  return true;
}

// All transposes by one permutation at once.
Result<bool> move_together(Graph& graph) {
  bool changed = false;
  for (const Permutation& p : permutations(graph)) {
    // A transpose by an involution would seed both its sides, which then stand in each other's way.
    const bool involution = p == inverse(p);
    TESSERA_TRY(const bool first, try_orders(graph, seed_orders(graph, p, true, !involution)));
    changed = changed || first;
    if (!involution) continue;
    TESSERA_TRY(const bool second, try_orders(graph, seed_orders(graph, p, false, true)));
    changed = changed || second;
  }
  return changed;
}

// One transpose alone, where several seeds block each other. Stops at the first that moves.
Result<bool> move_one(Graph& graph) {
  int tries = 0;
  for (std::size_t n = 0; n < graph.nodes.size() && tries < kMaxTries; ++n) {
    const Node& node = graph.nodes[n];
    if (!node.op->is(fact::kPermutes) || graph.constant(node.inputs[0])) continue;
    const Permutation perm = node.attrs.integers("perm");
    for (const bool before : {true, false}) {
      ++tries;
      Orders orders(graph.values.size());
      const ValueId seed = before ? node.inputs[0] : node.outputs[0];
      orders[static_cast<std::size_t>(seed)] = before ? perm : inverse(perm);
      TESSERA_TRY(const bool moved, try_orders(graph, std::move(orders)));
      if (moved) return true;
    }
  }
  return false;
}

}  // namespace

Result<bool> move_transposes(Graph& graph, const PassOptions&) {
  bool changed = false;
  for (int round = 0; round < kMaxRounds; ++round) {
    TESSERA_TRY(bool again, move_together(graph));
    if (!again) {
      TESSERA_TRY(again, move_one(graph));
    }
    if (!again) break;
    changed = true;
  }
  return changed;
}

}  // namespace tessera::graph
