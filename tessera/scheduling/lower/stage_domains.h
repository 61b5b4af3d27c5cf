// For every stage: where its loops run and how its tensors are stored.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/expr.h"
#include "tessera/scheduling/schedule/iter_map.h"
#include "tessera/scheduling/schedule/state.h"
#include "tessera/support/result.h"

namespace tessera::lower {

// A condition on the loops of a stage.
struct Condition {
  ir::Expr expr;
  bool reduce = false;  // does not apply to the initial value
  bool edge = false;    // of the tensor, not of the region: storage has room where it does not hold
  bool moot = false;    // where it does not hold, zeros are added
  int level = -1;       // position of the innermost loop of the stage it uses; -1: none
};

struct StageDomain {
  const schedule::Stage* stage = nullptr;
  std::vector<ir::Expr> mins;         // per output axis, in variables of the loops around the stage
  std::vector<std::int64_t> extents;  // per output axis: what is computed at each visit
  std::vector<std::int64_t> iter_extents;  // per iterator id
  std::vector<ir::Expr> leaf_vars;         // per iterator id; null for non-leaves
  ir::VarMap axis_values;  // axis variable of the op -> expression over loop variables
  std::vector<Condition> conditions;
  std::vector<ir::Expr> local_index;  // per output axis: axis value minus min
  std::vector<std::int64_t> stored;   // per output axis: extent in storage (padded splits round up)
  // What is done about conditions at the edge of the tensor.
  enum class Edges { kGuard, kFill, kIgnore } edges = Edges::kGuard;

  // Holds a part of the axis, or room beyond its end.
  bool is_part(std::size_t axis) const {
    return extents[axis] != stage->op.axes[axis].extent || !ir::is_const_int(mins[axis], 0);
  }
  bool padded() const {
    return stored != extents;
  }  // runs past the end of its axes: its reads are clamped
};

struct Domains {
  std::map<const schedule::Stage*, StageDomain> of;
  arith::Ranges ranges;  // of every loop variable
};

// `index` kept within 0..extent-1, as padded stages read; unchanged where the ranges already prove
// it.
ir::Expr clamp_index(const ir::Expr& index, std::int64_t extent, const arith::Ranges& ranges);

// kIllegalSchedule when a consumer of an attached stage runs outside the loop it is attached to.
Result<Domains> infer_domains(const schedule::State& state);

}  // namespace tessera::lower
