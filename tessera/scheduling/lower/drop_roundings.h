// Values between operations of one kernel, kept as they were calculated.
#pragma once

#include "tessera/lang/ir/stmt.h"

namespace tessera::lower {

// Operations of f16 and bf16 calculate in f32 and round their results. Where the next one of the
// same kernel takes such a result from no memory, it takes it unrounded: fewer instructions, and
// closer to what f32 would have given. Kernels that read neither type keep all roundings: those are
// casts of the model, which means them.
ir::Func drop_roundings(const ir::Func& func);

}  // namespace tessera::lower
