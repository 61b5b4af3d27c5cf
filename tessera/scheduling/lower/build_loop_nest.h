// State -> loops: places every stage, infers the region each attached stage must compute, and puts
// reductions into accumulators.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tessera/lang/ir/stmt.h"
#include "tessera/scheduling/schedule/state.h"
#include "tessera/support/result.h"

namespace tessera::lower {

// What later passes must know of a loop; keyed by the identity of its variable. The LoopNest keeps
// the variables alive, also those of loops that a pass removed, so that no new variable takes their
// place.
struct LoopAttrs {
  std::set<const ir::ExprNode*> peel;  // full parts and the rest become separate loops
  std::map<const ir::ExprNode*, std::int64_t>
      auto_unroll;  // unroll below while the product of extents allows
  std::map<const ir::ExprNode*, std::string>
      tensorize;  // intrinsic that replaces this loop and those inside
  std::map<const ir::ExprNode*, schedule::Pipeline>
      pipeline;  // of what the loop copies to shared memory
  std::map<const ir::ExprNode*, std::string>
      launches;           // stage that runs as a launch, by its outermost loop
  std::int64_t warp = 0;  // threads of a warp of the GPU that runs the launches; 0: a CPU
};

struct LoopNest {
  ir::Func func;
  LoopAttrs attrs;
  std::vector<schedule::Layout> param_layouts;  // per parameter; empty: as declared
};

// Needs: a State whose inlined stages are gone (schedule::inline_stages). Leaves: multi-dimensional
// buffers, all loop kinds. kIllegalSchedule when a consumer of an attached stage runs outside the
// loop it is attached to. On a GPU every stage at the root becomes a launch (bind_threads), and
// kIllegalSchedule also says what is wrong with the bindings (check_threads).
Result<LoopNest> build_loop_nest(const schedule::State& state, std::int64_t warp = 0);

}  // namespace tessera::lower
