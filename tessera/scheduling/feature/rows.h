// What a candidate is described by, row by row.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/support/result.h"

namespace tessera::feature {

enum class Rows : std::uint8_t {
  kStatement,  // one per statement of the loop program, in program order
  kLoop,       // one per loop, with the tree they form
  kStep,       // one per schedule step, of foreign logs too
};
const char* to_text(Rows rows);  // "statement", "loop", "step"
Result<Rows> rows_from_text(const std::string& text);

}  // namespace tessera::feature
