// The name that was probably meant, for messages about one that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// The first of `names` that begins with `name`, else the first that the fewest insertions,
// deletions, replacements and exchanges of letters lead to, if one for every three letters of
// `name` is enough; upper and lower case are the same. Empty when there is none.
std::string nearest_name(std::string_view name, const std::vector<std::string>& names);

// The end of a message about an unknown name: "; did you mean 'NEAREST'?", or `otherwise` when no
// name is near.
std::string suggest_name(std::string_view name, const std::vector<std::string>& names,
                         std::string_view otherwise = "");

}  // namespace tessera
