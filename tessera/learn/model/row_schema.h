// What this program computes of candidates, by the names that Needs uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::model {

struct RowSchema {
  std::string digest;  // of the columns' names and their version
  std::int64_t columns = 0;
  std::string context_digest;  // of the context that goes with these rows; empty: there is none
  std::int64_t context_columns = 0;
};

// `rows` is "statement", "loop", "step" or "curve". kInvalidArgument for other names, "decisions"
// among them: every space has its own.
Result<RowSchema> row_schema(const std::string& rows);
// Of the columns, likewise.
Result<std::vector<std::string>> row_names(const std::string& rows);

}  // namespace tessera::model
