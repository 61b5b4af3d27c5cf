// Many similar texts in few bytes: schedules differ in their numbers more than in their words, and
// one number of a candidate stands in many of its steps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::dataset {

// Texts are cut into pieces, each kept once with slots for its numbers. Texts of the same pieces
// are a table of numbers, whose columns are kept one after the other; a column that is constant or
// a copy of another takes no room. Made for gzip afterwards: bytes repeat. kInvalidArgument: a text
// with the control characters that mark slots.
Result<std::string> pack_texts(const std::vector<std::string>& texts);
// kIo: bytes that are none of pack_texts, or more than `most_bytes` of text.
Result<std::vector<std::string>> unpack_texts(std::string_view bytes, std::size_t most_bytes);

}  // namespace tessera::dataset
