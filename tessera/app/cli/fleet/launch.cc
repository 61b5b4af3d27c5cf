// tessera fleet systemd, slurm, kubernetes: files that start agents.
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/app/cli/fleet/fleet.h"
#include "tessera/trials/record/database_name.h"

namespace tessera::cli {
namespace {

int print(const FleetArgs& args, Result<std::string> (*write)(const fleet::LaunchOptions&)) {
  fleet::LaunchOptions launch = args.launch;
  launch.database = database_path(args.db);
  // A file is where this command runs; agents run elsewhere.
  if (!record::is_server_url(launch.database)) {
    return report(make_error(ErrorCode::kInvalidArgument,
                             "'{}' is a file: agents of several machines need a postgresql:// URL",
                             launch.database));
  }
  if (const Result<void> can = record::check_server_url(launch.database); !can)
    return report(can.error());
  const Result<std::string> text = write(launch);
  if (!text) return report(text.error());
  fmt::print("{}", *text);
  return kOk;
}

}  // namespace

int fleet_systemd(const FleetArgs& args) { return print(args, fleet::systemd_unit); }
int fleet_slurm(const FleetArgs& args) { return print(args, fleet::slurm_script); }
int fleet_kubernetes(const FleetArgs& args) { return print(args, fleet::kubernetes_manifest); }

}  // namespace tessera::cli
