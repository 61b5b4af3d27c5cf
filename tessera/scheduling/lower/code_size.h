// How long the code of a GPU program becomes.
#pragma once

#include "tessera/lang/ir/launch.h"

namespace tessera::lower {

// Operations in the code of a program whose unrolled loops have become copies of their bodies:
// loads, stores and arithmetic, not their addresses. Compilers take time in proportion to it, or
// more.
double code_size(const ir::DeviceProgram& program);

}  // namespace tessera::lower
