// tessera db import and merge: records of databases, exports and foreign logs.
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
  if (args.format != "auto" && !record::is_database(file)) {
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
  const bool lines = done && done->format == record::LogFormat::kTessera && done->records > 0;
  if (done && (record::is_database(file) ? done->outdated : lines)) {
    TESSERA_TRY(const std::int64_t changed, app::bring_up_to_date(database));
    (void)changed;
  }
  return done;
}

std::string format_of(const std::string& file, const record::Imported& done) {
  return record::is_database(file) ? "database" : record::to_text(done.format);
}

// `files` into `place`, which is not made where there is nothing to read.
int import_all(const DbArgs& args, const std::vector<std::string>& files,
               const std::string& place) {
  for (const std::string& file : files) {
    const Result<void> there = record::check_importable(file);
    if (!there) return report(there.error());
  }
  Result<Database> database = Database::open(place);
  if (!database) return report(database.error());
  auto list = Json::array();
  std::int64_t records = 0, good = 0, skipped = 0;
  for (const std::string& file : files) {
    const Result<record::Imported> done = import_one(*database, args, file);
    if (!done) return report(done.error());
    records += done->records;
    good += done->good;
    skipped += done->skipped;
    list.push_back({{"file", file},
                    {"format", format_of(file, *done)},
                    {"records", done->records},
                    {"good", done->good},
                    {"tasks", done->tasks},
                    {"skipped", done->skipped}});
    if (args.json) continue;
    fmt::print("{}: {} records ({} good) of {} tasks, {}{}\n", file, done->records, done->good,
               done->tasks, format_of(file, *done),
               done->skipped > 0 ? fmt::format("; {} were there already", done->skipped) : "");
  }
  if (args.json) {
    print_json({{"records", records}, {"good", good}, {"skipped", skipped}, {"files", list}});
  } else if (files.size() > 1) {
    fmt::print("total: {} records ({} good)\n", records, good);
  }
  return kOk;
}

}  // namespace

int db_import(const DbArgs& args) { return import_all(args, args.files, database_path(args.db)); }

int db_merge(const DbArgs& args) {
  const Result<void> database = record::check_database(args.files.at(0));
  if (!database) return report(database.error());
  return import_all(args, {args.files.at(0)}, args.files.at(1));
}

}  // namespace tessera::cli
