// Which steps of a compiled model must come one after the other.
#pragma once

#include "tessera/backend/exec/compile_model.h"
#include "tessera/backend/exec/running_order.h"

namespace tessera::exec {

// By the memory that they were given: whatever its plan shares is in it. Operators of the host come
// after all steps before them and before all behind them.
RunningOrder order_of(const std::vector<CompiledModel::Step>& steps);

// The most branches that end in one step.
std::size_t widest_join(const RunningOrder& order);

}  // namespace tessera::exec
