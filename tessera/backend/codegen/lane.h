// One lane of a vector expression as a scalar expression: the slow path of lazy vector selects.
#pragma once

#include <optional>

#include "tessera/lang/ir/expr.h"

namespace tessera::codegen {

// Evaluates exactly what lane `lane` of `e` needs. Nothing for calls whose lanes depend on other
// lanes.
std::optional<ir::Expr> lane_of(const ir::Expr& e, int lane);

}  // namespace tessera::codegen
