// tessera db grant: SQL for a role that may only add measurements.
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/trials/record/server_grant.h"

namespace tessera::cli {

int db_grant(const DbArgs& args) {
  fmt::print("{}", record::grant_sql(args.role));
  return kOk;
}

}  // namespace tessera::cli
