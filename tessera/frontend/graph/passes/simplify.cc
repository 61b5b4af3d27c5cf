#include "tessera/frontend/graph/passes/simplify.h"

namespace tessera::graph {
namespace {

// Each round only shortens the graph or replaces an operator by a cheaper one; the bound is for
// chains that one walk shortens by one.
constexpr int kMaxRounds = 8;

}  // namespace

Result<bool> simplify(Graph& graph, const PassOptions& options) {
  bool changed = false;
  for (int round = 0; round < kMaxRounds; ++round) {
    const auto rule = [&](Editor& e, const Node& node) -> Result<ValueId> {
      TESSERA_TRY(const ValueId by, simplify_arithmetic(e, node, options));
      if (by != kNoValue) return by;
      return simplify_movement(e, node);
    };
    TESSERA_TRY(const bool again, Editor(graph).rewrite(rule));
    if (!again) break;
    compact(graph);
    changed = true;
  }
  return changed;
}

}  // namespace tessera::graph
