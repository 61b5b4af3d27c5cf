// What --peers asks for.
#pragma once

#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::cli {

// An error when one of the names is not a peer's; `all` and `none` stand alone.
Result<void> check_peers(const std::vector<std::string>& names);

bool is_all(const std::vector<std::string>& names);
bool is_none(const std::vector<std::string>& names);

}  // namespace tessera::cli
