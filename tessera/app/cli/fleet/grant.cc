// tessera fleet grant: SQL for a role that may be an agent, or a tuner.
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/fleet/fleet.h"
#include "tessera/trials/fleet/queue_grant.h"

namespace tessera::cli {

int fleet_grant(const FleetArgs& args) {
  fmt::print("{}", fleet::queue_grant_sql(
                       args.role, args.tuner ? fleet::GrantFor::kTuner : fleet::GrantFor::kAgent));
  return kOk;
}

}  // namespace tessera::cli
