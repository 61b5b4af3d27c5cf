// What artifacts contain of this folder, of runtime and of target, as the build embedded it.
#pragma once

#include <string_view>
#include <vector>

namespace tessera::artifact {

struct RuntimeSource {
  std::string_view name;  // "context.c"
  std::string_view text;
};

// In the order in which an artifact's source needs them: abi.h and types.h first.
const std::vector<RuntimeSource>& runtime_sources();

}  // namespace tessera::artifact
