// Programs of others.
#pragma once

#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera {

// Runs a program in `folder` and returns what it printed. kUnavailable: it could not be started;
// kBuildFailed: it failed, with the end of what it printed.
Result<std::string> run_tool(const std::vector<std::string>& command, const std::string& folder);

}  // namespace tessera
