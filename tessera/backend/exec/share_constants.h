// Models of the same weights that hold them once.
#pragma once

#include "tessera/backend/exec/compile_model.h"

namespace tessera::exec {

// Lets `model` read the constants of `with` where they are the same, in the same order; its own are
// released. Before any runner of `model` is made, and only for models of this process. Returns the
// bytes that both read.
std::int64_t share_constants(const CompiledModel& with, CompiledModel* model);

}  // namespace tessera::exec
