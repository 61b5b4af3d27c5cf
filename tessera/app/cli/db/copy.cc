// tessera db copy: all of a database into an empty one, of either engine.
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/support/counted.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

using record::Database;

Result<std::int64_t> copy_all(const DbArgs& args) {
  TESSERA_TRY(const Database from, Database::open_read_only(args.files.at(0)));
  TESSERA_TRY(Database to, Database::open(args.files.at(1)));
  return to.copy_from(from);
}

}  // namespace

int db_copy(const DbArgs& args) {
  const Result<std::int64_t> records = copy_all(args);
  if (!records) return report(records.error());
  if (args.json) {
    print_json({{"from", args.files[0]}, {"to", args.files[1]}, {"records", *records}});
  } else {
    fmt::print("{} copied\n", counted(*records, "record"));
  }
  return kOk;
}

}  // namespace tessera::cli
