// A function of launch loops -> a device program.
#pragma once

#include "tessera/lang/ir/launch.h"
#include "tessera/scheduling/lower/build_loop_nest.h"

namespace tessera::lower {

// Needs: every statement of the function is a nest of block loops, allocations of shared memory and
// thread loops (bind_threads), within allocations on the heap, which become temporaries of the
// program. A launch is named after the stage that it computes.
ir::DeviceProgram split_launches(const ir::Func& func, const LoopAttrs& attrs);

}  // namespace tessera::lower
