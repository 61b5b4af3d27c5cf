// What `tessera info` says of a file, as JSON that is also printed for people.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tessera/support/result.h"

namespace tessera::cli {

// A model (zoo:NAME or an ONNX file), an artifact, a plan, a database of records or trained
// weights, told apart by what is in it.
Result<nlohmann::ordered_json> describe_file(const std::string& path);

// The operators and element types that import knows, as docs/reference/operators.md shows them.
std::string operators_page();

}  // namespace tessera::cli
