// The name that was probably meant, for messages about one that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// The first of `names` that begins with `name`, else the first that the fewest insertions,
// deletions and replacements of letters lead to; upper and lower case are the same. Empty without
// names.
std::string nearest_name(std::string_view name, const std::vector<std::string>& names);

}  // namespace tessera
