// How a pass asks what the plan says.
#pragma once

#include <string>

#include "tessera/graph/passes/passes.h"

namespace tessera::graph {

// The value of a point: by the decider, or as the point prefers where there is none.
inline Result<std::string> decide(const PassOptions& options, const plan::Point& point) {
  std::size_t value = point.preferred;
  if (options.decider) {
    TESSERA_TRY(value, options.decider->decide(point));
  }
  return point.values[value];
}

}  // namespace tessera::graph
