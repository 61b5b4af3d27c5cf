// The rules of `simplify`, by what they look at. Each returns kNoValue where it does not apply.
#pragma once

#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::graph {

Result<ValueId> simplify_arithmetic(Editor& e, const Node& node, const PassOptions& options);
Result<ValueId> simplify_movement(Editor& e, const Node& node);

// The value that all elements of a constant have, if they agree (an integer only if a double holds
// it); none for other values and empty constants.
std::optional<double> splat_of(const HostTensor* constant);

}  // namespace tessera::graph
