// Ways in which at least so many models must have run: a way that is not available any more finds
// nothing, and nothing else says so.
#pragma once

#include <map>
#include <string>

#include "check_graph.h"

namespace tessera::fuzz {

using RequiredWays = std::map<std::string, int>;

// "artifacts=1,plans=20": false where a way is unknown or its number is none above 0.
bool read_required(const std::string& text, RequiredWays* out);

// "artifacts: 0 of 1 required"; empty where every way ran as often as is required.
std::string missing_ways(const RequiredWays& required, const Counts& counts);

}  // namespace tessera::fuzz
