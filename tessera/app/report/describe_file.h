// What each kind of file that Tessera reads or writes says of itself.
#pragma once

#include <string>

#include "tessera/support/json.h"
#include "tessera/support/result.h"

namespace tessera::report {

// A model (zoo:NAME or an ONNX file), an artifact, a plan, a database of records or trained
// weights, told apart by what is in it.
Result<Json> describe_file(const std::string& path);

}  // namespace tessera::report
