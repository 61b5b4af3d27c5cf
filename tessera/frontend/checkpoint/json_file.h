// JSON files of a folder, of a size and depth that is checked before they are read.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tessera/support/result.h"

namespace tessera::checkpoint {

// An object. kInvalidArgument names `file`.
Result<nlohmann::json> parse_object(std::string_view text, const std::string& file);
Result<nlohmann::json> read_object(const std::string& path);

// A member of an object; null where there is none.
const nlohmann::json& member(const nlohmann::json& object, std::string_view name);

}  // namespace tessera::checkpoint
