// tessera db import: records of exports and foreign logs.
#include <cstdio>

#include <unistd.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/app/tune/record_update.h"
#include "tessera/support/json.h"
#include "tessera/trials/record/json_lines.h"

namespace tessera::cli {
namespace {

using record::Database;

// One live line on a terminal.
std::function<void(std::int64_t)> import_progress(const std::string& file) {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [file](std::int64_t records) {
    fmt::print(stderr, "\r{}: {} records", file, records);
    std::fflush(stderr);
  };
}

Result<record::Imported> import_one(Database& database, const DbArgs& args,
                                    const std::string& file) {
  if (args.format != "auto") {
    bool first = true;
    TESSERA_DO(record::visit_lines(file, [&](std::string_view line, std::int64_t) -> Result<void> {
      if (!first) return {};
      first = false;
      TESSERA_TRY(const record::LogFormat format, record::detect_format(line));
      if (args.format == record::to_text(format)) return {};
      return make_error(ErrorCode::kInvalidArgument, "is of the format {}, not {}",
                        record::to_text(format), args.format);
    }));
  }
  const auto progress = import_progress(file);
  Result<record::Imported> done = record::import_file(database, file, progress);
  if (progress) fmt::print(stderr, "\n");
  // An older program may have written the file.
  if (done && done->format == record::LogFormat::kTessera && done->records > 0) {
    TESSERA_TRY(const std::int64_t changed, app::bring_up_to_date(database));
    (void)changed;
  }
  return done;
}

}  // namespace

int db_import(const DbArgs& args) {
  Result<Database> database = Database::open(database_path(args.db));
  if (!database) return report(database.error());
  auto list = Json::array();
  std::int64_t records = 0, good = 0, skipped = 0;
  for (const std::string& file : args.files) {
    const Result<record::Imported> done = import_one(*database, args, file);
    if (!done) return report(done.error());
    records += done->records;
    good += done->good;
    skipped += done->skipped;
    list.push_back({{"file", file},
                    {"format", record::to_text(done->format)},
                    {"records", done->records},
                    {"good", done->good},
                    {"tasks", done->tasks},
                    {"skipped", done->skipped}});
    if (args.json) continue;
    fmt::print("{}: {} records ({} good) of {} tasks, {}{}\n", file, done->records, done->good,
               done->tasks, record::to_text(done->format),
               done->skipped > 0 ? fmt::format("; {} were there already", done->skipped) : "");
  }
  if (args.json) {
    print_json({{"records", records}, {"good", good}, {"skipped", skipped}, {"files", list}});
  } else if (args.files.size() > 1) {
    fmt::print("total: {} records ({} good)\n", records, good);
  }
  return kOk;
}

}  // namespace tessera::cli
