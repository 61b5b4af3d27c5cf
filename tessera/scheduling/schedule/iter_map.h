// From the iterators of a stage back to its axes: extents, values and the conditions of imperfect
// splits.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/lang/ir/expr.h"
#include "tessera/scheduling/schedule/state.h"

namespace tessera::schedule {

// Extent of every iterator when the root iterators have `root_extents`. Inner parts of a split
// shrink to what is there: 5 split by 8 gives parts 1 and 5.
std::vector<std::int64_t> iter_extents(const Stage& stage,
                                       const std::vector<std::int64_t>& root_extents);

// Iterations that the parts of a split run over together: more than it has where they do not
// divide.
std::int64_t covered(const Relation& split, const std::vector<std::int64_t>& extents);

struct Guard {
  ir::Expr value;  // value < extent must hold
  std::int64_t extent;
  bool reduce;
  Tail tail;
};

struct IterMap {
  std::vector<ir::Expr> values;  // per iterator id, in terms of the leaf variables
  std::vector<Guard> guards;
};

// `leaf_vars[id]` is set for every leaf.
IterMap map_iters(const Stage& stage, const std::vector<std::int64_t>& extents,
                  const std::vector<ir::Expr>& leaf_vars);

}  // namespace tessera::schedule
