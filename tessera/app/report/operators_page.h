// docs/reference/operators.md.
#pragma once

#include <string>

namespace tessera::report {

// The operators and element types that import knows.
std::string operators_page();

}  // namespace tessera::report
