// simdjson for lines of logs; only for sources that parse them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

#include "tessera/support/result.h"

namespace tessera::record {

namespace dom = simdjson::dom;

inline Error bad_line(const std::string& why) { return {ErrorCode::kInvalidArgument, why}; }

// The value stays valid until the next call of this thread.
inline Result<dom::element> parse_json(std::string_view text) {
  thread_local dom::parser parser;
  dom::element element;
  const simdjson::error_code error = parser.parse(text.data(), text.size()).get(element);
  if (error) return bad_line(fmt::format("is not JSON: {}", simdjson::error_message(error)));
  return element;
}

// A list as its elements.
inline std::vector<dom::element> elements_of(dom::array array) {
  std::vector<dom::element> out;
  out.reserve(array.size());
  for (const dom::element e : array) out.push_back(e);
  return out;
}

inline Result<std::vector<dom::element>> list(dom::element value, const char* what,
                                              std::size_t least) {
  dom::array array;
  if (value.get(array)) return bad_line(fmt::format("{} is not a list", what));
  std::vector<dom::element> out = elements_of(array);
  if (out.size() < least) {
    return bad_line(fmt::format("{} has {} elements, needs {}", what, out.size(), least));
  }
  return out;
}

inline Result<double> number(dom::element value, const char* what) {
  double out = 0;
  if (value.get(out)) return bad_line(fmt::format("{} is not a number", what));
  return out;
}

inline Result<std::int64_t> integer(dom::element value, const char* what) {
  std::int64_t out = 0;
  if (value.get(out)) return bad_line(fmt::format("{} is not an integer", what));
  return out;
}

inline Result<std::string> text(dom::element value, const char* what) {
  std::string_view out;
  if (value.get(out)) return bad_line(fmt::format("{} is not text", what));
  return std::string(out);
}

// [costs, code, seconds, time] of both formats.
struct LoggedResult {
  std::vector<double> costs;
  std::int64_t code = 0;
  double total_s = 0, time = 0;
};

inline Result<LoggedResult> logged_result(dom::element value) {
  TESSERA_TRY(const auto parts, list(value, "the result", 4));
  LoggedResult out;
  TESSERA_TRY(const auto costs, list(parts[0], "the costs", 0));
  for (const dom::element cost : costs) {
    TESSERA_TRY(const double seconds, number(cost, "a cost"));
    out.costs.push_back(seconds);
  }
  TESSERA_TRY(out.code, integer(parts[1], "the error code"));
  TESSERA_TRY(out.total_s, number(parts[2], "the cost of the trial"));
  TESSERA_TRY(out.time, number(parts[3], "the time"));
  if (out.code == 0 && out.costs.empty()) return bad_line("a result without error has no costs");
  return out;
}

}  // namespace tessera::record
