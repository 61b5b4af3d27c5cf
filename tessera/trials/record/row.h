// A session, task or record as one line of JSON.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "tessera/support/result.h"
#include "tessera/trials/record/record.h"

namespace tessera::record {

using Row = std::variant<SessionRow, TaskRow, Record>;

// One object without a line break: "kind" is "session", "task" or "record"; what has its default
// value is left out. Numbers read back as they were.
std::string to_json_line(const Row& row);
Result<Row> row_from_json_line(std::string_view line);

// Older programs kept what has members today as JSON in `extra`: moves it there. Other formats are
// left alone.
void take_marks(Record* record);

}  // namespace tessera::record
