// What artifacts contain of this folder, of runtime and of target, as the build embedded it.
#pragma once

#include <string_view>
#include <vector>

namespace tessera::artifact {

struct RuntimeSource {
  std::string_view name;  // "context.c"
  std::string_view text;
};

// All of them; c_parts has what an artifact needs, in which order.
const std::vector<RuntimeSource>& runtime_sources();

}  // namespace tessera::artifact
