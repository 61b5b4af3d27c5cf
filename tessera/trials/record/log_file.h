// Logs of measurements as text: one JSON value a line, plain or compressed.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tessera/support/result.h"
#include "tessera/trials/record/record.h"

namespace tessera::record {

// Calls `visit` with each line and its number, from 1; empty lines and comments (#) are passed
// over. Reads gzip as it reads plain text. Errors of `visit` gain "file:line: " in front.
Result<void> visit_lines(const std::string& path,
                         const std::function<Result<void>(std::string_view, std::int64_t)>& visit);

enum class LogFormat { kTessera, kAnsor, kAutotvm };

const char* to_text(LogFormat format);  // "tessera", "ansor", "autotvm"; used in Record::format
Result<LogFormat> log_format_from_text(const std::string& text);

// By the names of its members. kInvalidArgument when it is none of them.
Result<LogFormat> detect_format(std::string_view line);

struct ForeignLog {
  LogFormat format = LogFormat::kAnsor;
  std::int64_t records = 0, good = 0;  // good: without an error
};

// Every record of a foreign log, in order; all lines have one format.
Result<ForeignLog> read_foreign_log(const std::string& path,
                                    const std::function<Result<void>(Record&)>& visit);

// What the codes of both foreign formats mean.
std::string outcome_of_code(std::int64_t code);
// For Record::reason: "3 compile_device"; empty for 0.
std::string reason_of_code(std::int64_t code);
// Of a record that came from such a log, or of our own.
std::int64_t code_of(const Record& record);

}  // namespace tessera::record
