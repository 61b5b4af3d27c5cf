// tessera db migrate: what an older program wrote, as this one writes it.
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/app/tune/record_update.h"
#include "tessera/support/json.h"
#include "tessera/trials/record/database_name.h"

namespace tessera::cli {
namespace {

using record::Database;

struct Migrated {
  bool outdated = false;
  std::int64_t changed = 0;
};

Result<Migrated> migrate(const std::string& place) {
  // Nothing is made where there is nothing.
  if (!record::is_server_url(place)) TESSERA_DO(Database::open_read_only(place));
  TESSERA_TRY(Database database, Database::open(place));
  Migrated out;
  TESSERA_TRY(out.outdated, database.is_outdated());
  if (out.outdated) {
    TESSERA_TRY(out.changed, app::bring_up_to_date(database));
  }
  return out;
}

}  // namespace

int db_migrate(const DbArgs& args) {
  const std::string place = database_path(args.db);
  const Result<Migrated> done = migrate(place);
  if (!done) return report(done.error());
  if (args.json) {
    print_json({{"database", place}, {"outdated", done->outdated}, {"changed", done->changed}});
  } else if (done->outdated) {
    fmt::print("{}: brought up to date, {} records changed\n", place, done->changed);
  } else {
    fmt::print("{}: is up to date\n", place);
  }
  return kOk;
}

}  // namespace tessera::cli
