// tessera db prune: removes records by age, session and machine.
#include <ctime>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/support/counted.h"
#include "tessera/support/json.h"
#include "tessera/trials/record/database_name.h"

namespace tessera::cli {
namespace {

using record::Database;

constexpr std::int64_t kSecondsOfADay = 86'400;

Result<record::Pruned> prune(const DbArgs& args) {
  if (args.older_days == 0 && args.session == 0 && args.machine.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "say which records: --older DAYS, --session ID or --machine NAME");
  }
  const std::string place = database_path(args.db);
  if (!record::is_server_url(place)) TESSERA_DO(Database::open_read_only(place));
  TESSERA_TRY(Database database, Database::open(place));
  record::PruneFilter filter{.session = args.session, .machine = args.machine};
  if (args.older_days > 0) {
    filter.before =
        static_cast<std::int64_t>(std::time(nullptr)) - args.older_days * kSecondsOfADay;
  }
  return database.prune(filter, args.dry_run);
}

}  // namespace

int db_prune(const DbArgs& args) {
  const Result<record::Pruned> done = prune(args);
  if (!done) return report(done.error());
  if (args.json) {
    print_json(
        {{"records", done->records}, {"sessions", done->sessions}, {"removed", !args.dry_run}});
  } else {
    fmt::print("{}{} and {}\n", args.dry_run ? "would remove " : "removed ",
               counted(done->records, "record"), counted(done->sessions, "session"));
  }
  return kOk;
}

}  // namespace tessera::cli
