// tessera db export: records as lines of a file.
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/support/file_writer.h"
#include "tessera/trials/record/json_lines.h"

namespace tessera::cli {
namespace {

using record::Database;

Result<std::int64_t> export_to(const DbArgs& args) {
  TESSERA_TRY(const Database database, Database::open_read_only(database_path(args.db)));
  TESSERA_TRY(const record::LogFormat format, record::log_format_from_text(args.format));
  if (args.output == "-") {
    return record::export_lines(database, format, [](const std::string& line) -> Result<void> {
      fmt::print("{}\n", line);
      return {};
    });
  }
  TESSERA_TRY(FileWriter file, FileWriter::create(args.output));
  TESSERA_TRY(const std::int64_t count,
              record::export_lines(database, format, [&](const std::string& line) -> Result<void> {
                TESSERA_DO(file.write(line));
                return file.write("\n");
              }));
  TESSERA_DO(file.finish());
  return count;
}

}  // namespace

int db_export(const DbArgs& args) {
  const Result<std::int64_t> count = export_to(args);
  if (!count) return report(count.error());
  fmt::print(stderr, "{} records\n", *count);
  return kOk;
}

}  // namespace tessera::cli
