#include "tessera/trials/record/log_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>

#include <zlib.h>

#include "tessera/trials/record/ansor_log.h"
#include "tessera/trials/record/autotvm_log.h"

namespace tessera::record {
namespace {

struct CloseGz {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

struct Code {
  const char* outcome;
  const char* name;
};

// In both formats; the names are those of their enumerators.
constexpr std::array<Code, 9> kCodes = {{{"ok", ""},
                                         {"invalid_static", "instantiation"},
                                         {"build_error", "compile_host"},
                                         {"build_error", "compile_device"},
                                         {"run_error", "runtime_device"},
                                         {"wrong_result", "wrong_answer"},
                                         {"build_timeout", "build_timeout"},
                                         {"run_timeout", "run_timeout"},
                                         {"worker_lost", "unknown"}}};

bool is_comment(std::string_view line) {
  return line.empty() || line[0] == '#' ||
         line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<void> visit_lines(const std::string& path,
                         const std::function<Result<void>(std::string_view, std::int64_t)>& visit) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return make_error(ErrorCode::kIo, "{}: is a folder", path);
  }
  errno = 0;
  const std::unique_ptr<gzFile_s, CloseGz> file(gzopen(path.c_str(), "rb"));
  if (!file) {
    return make_error(errno == ENOENT ? ErrorCode::kUnavailable : ErrorCode::kIo, "{}: {}", path,
                      std::strerror(errno));
  }
  gzbuffer(file.get(), 1 << 17);
  std::string buffer(1 << 20, '\0');
  std::size_t used = 0;
  std::int64_t number = 0;
  const auto pass = [&](std::string_view line) -> Result<void> {
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (is_comment(line)) return {};
    const Result<void> result = visit(line, number);
    if (result.ok()) return {};
    return result.error().with_context(fmt::format("{}:{}", path, number));
  };
  while (true) {
    if (used == buffer.size()) buffer.resize(2 * buffer.size());
    const unsigned room =
        static_cast<unsigned>(std::min<std::size_t>(buffer.size() - used, 1 << 24));
    const int got = gzread(file.get(), buffer.data() + used, room);
    int code = 0;
    const char* said = gzerror(file.get(), &code);
    // A stream that ends early is an error of its own, told only after all of it was read.
    if (got < 0 || (got == 0 && code != Z_OK && code != Z_STREAM_END)) {
      return make_error(ErrorCode::kIo, "{}: cannot be read after line {}: {}", path, number, said);
    }
    if (got == 0) break;
    const std::size_t end = used + static_cast<std::size_t>(got);
    std::size_t begin = 0;
    while (const void* newline = std::memchr(buffer.data() + begin, '\n', end - begin)) {
      const auto at = static_cast<std::size_t>(static_cast<const char*>(newline) - buffer.data());
      TESSERA_DO(pass(std::string_view(buffer).substr(begin, at - begin)));
      begin = at + 1;
    }
    std::memmove(buffer.data(), buffer.data() + begin, end - begin);
    used = end - begin;
  }
  if (used > 0) TESSERA_DO(pass(std::string_view(buffer).substr(0, used)));
  return {};
}

const char* to_text(LogFormat format) {
  switch (format) {
    case LogFormat::kTessera:
      return "tessera";
    case LogFormat::kAnsor:
      return "ansor";
    case LogFormat::kAutotvm:
      return "autotvm";
  }
  return "";
}

Result<LogFormat> log_format_from_text(const std::string& text) {
  for (const LogFormat format : {LogFormat::kTessera, LogFormat::kAnsor, LogFormat::kAutotvm}) {
    if (text == to_text(format)) return format;
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "no format '{}'; formats are: tessera ansor autotvm", text);
}

Result<ForeignLog> read_foreign_log(const std::string& path,
                                    const std::function<Result<void>(Record&)>& visit) {
  ForeignLog log;
  TESSERA_DO(visit_lines(path, [&](std::string_view line, std::int64_t) -> Result<void> {
    if (log.records == 0) {
      TESSERA_TRY(log.format, detect_format(line));
      if (log.format == LogFormat::kTessera) {
        return make_error(ErrorCode::kInvalidArgument,
                          "is an export of Tessera, not a foreign log");
      }
    }
    Record record;
    if (log.format == LogFormat::kAnsor) {
      TESSERA_TRY(record, parse_ansor_line(line));
    } else {
      TESSERA_TRY(record, parse_autotvm_line(line));
    }
    ++log.records;
    log.good += record.outcome == "ok" ? 1 : 0;
    return visit(record);
  }));
  return log;
}

std::string outcome_of_code(std::int64_t code) {
  const bool known = code >= 0 && code < static_cast<std::int64_t>(kCodes.size());
  return known ? kCodes[static_cast<std::size_t>(code)].outcome : "worker_lost";
}

std::string reason_of_code(std::int64_t code) {
  if (code == 0) return "";
  const bool known = code > 0 && code < static_cast<std::int64_t>(kCodes.size());
  return fmt::format("{} {}", code, known ? kCodes[static_cast<std::size_t>(code)].name : "code");
}

std::int64_t code_of(const Record& record) {
  if (record.outcome == "ok" || record.outcome == "censored") return 0;
  for (std::size_t code = 1; code < kCodes.size(); ++code) {
    if (record.reason == reason_of_code(static_cast<std::int64_t>(code))) {
      return static_cast<std::int64_t>(code);
    }
  }
  for (std::size_t code = 1; code < kCodes.size(); ++code) {
    if (record.outcome == kCodes[code].outcome) return static_cast<std::int64_t>(code);
  }
  return static_cast<std::int64_t>(kCodes.size()) - 1;
}

}  // namespace tessera::record
