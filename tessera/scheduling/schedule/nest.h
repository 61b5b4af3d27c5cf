// The loops of a State inside each other: where each stage is computed, which loops are around it,
// and which run while what it computed is read. Lowering writes these loops, features count them.
#pragma once

#include <vector>

#include "tessera/scheduling/schedule/state.h"
#include "tessera/support/result.h"

namespace tessera::schedule {

struct NestLoop {
  const Stage* stage = nullptr;  // whose loop it is
  int iter = 0;                  // leaf of that stage
  // Over threads that compute together what they share: what is inside runs once for all of them.
  bool together = false;

  const Iter& it() const { return stage->iters[static_cast<std::size_t>(iter)]; }
};

// The stage whose loops it is computed in; null for those that have none around them.
const Stage* stage_around(const State& state, const Stage& stage);

// Those of the stages around it, down to where it is attached; outermost first.
std::vector<NestLoop> loops_around(const State& state, const Stage& stage);

// The loops that run while `reader` reads one visit of `stage`, in any order. kIllegalSchedule
// where the reader is outside of the loop that the stage is computed at.
Result<std::vector<NestLoop>> loops_of_visit(const State& state, const Stage& stage,
                                             const Stage& reader);

}  // namespace tessera::schedule
