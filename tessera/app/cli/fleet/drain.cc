// tessera fleet drain: an agent finishes what it holds, and ends.
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/fleet/fleet.h"
#include "tessera/support/counted.h"

namespace tessera::cli {

int fleet_drain(const FleetArgs& args) {
  const Result<fleet::Queue> queue = open_queue(args);
  if (!queue) return report(queue.error());
  const Result<std::int64_t> drained = fleet::Roster(*queue).drain(args.agent);
  if (!drained) return report(drained.error());
  if (*drained == 0) {
    return report(make_error(ErrorCode::kInvalidArgument,
                             "no agent '{}' is here; `tessera fleet status` lists them",
                             args.agent));
  }
  if (args.json) {
    print_json({{"drained", *drained}});
  } else {
    fmt::print("{} will end after what it holds\n", counted(*drained, "agent"));
  }
  return kOk;
}

}  // namespace tessera::cli
