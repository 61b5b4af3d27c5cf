// tessera db prune: removes records by age, session and machine.
#include <ctime>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/support/counted.h"
#include "tessera/support/json.h"
#include "tessera/trials/fleet/roster.h"
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

// What a fleet left of tunings that ended, where there is one.
Result<std::int64_t> prune_queue(const DbArgs& args) {
  if (args.dry_run) return std::int64_t{0};
  const std::string place = database_path(args.db);
  {
    TESSERA_TRY(const record::Connection connection,
                record::Connection::open(place, record::OpenMode::kRead));
    TESSERA_TRY(const bool there, connection.has_table("queue_version"));
    if (!there) return std::int64_t{0};
  }
  TESSERA_TRY(const fleet::Queue queue, fleet::Queue::open(place));
  return fleet::Roster(queue).forget_old();
}

}  // namespace

int db_prune(const DbArgs& args) {
  const Result<record::Pruned> done = prune(args);
  if (!done) return report(done.error());
  const Result<std::int64_t> tunings = prune_queue(args);
  if (!tunings) return report(tunings.error());
  if (args.json) {
    print_json({{"records", done->records},
                {"sessions", done->sessions},
                {"tunings", *tunings},
                {"removed", !args.dry_run}});
  } else {
    fmt::print("{}{} and {}\n", args.dry_run ? "would remove " : "removed ",
               counted(done->records, "record"), counted(done->sessions, "session"));
    if (*tunings > 0) fmt::print("removed the trials of {}\n", counted(*tunings, "ended tuning"));
  }
  return kOk;
}

}  // namespace tessera::cli
