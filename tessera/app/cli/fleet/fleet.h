// What the subcommands of `tessera fleet` share.
#pragma once

#include <string>

#include "tessera/trials/fleet/launchers.h"
#include "tessera/trials/fleet/roster.h"
#include "tessera/trials/fleet/simulate.h"

namespace tessera::cli {

struct FleetArgs {
  std::string db;  // a file or a URL; empty: $TESSERA_DB, else tessera.db
  std::string agent, role;
  bool json = false, watch = false, tuner = false;
  fleet::SimulateOptions simulation;
  fleet::LaunchOptions launch;
};

// The queue of the database, which must be there.
Result<fleet::Queue> open_queue(const FleetArgs& args);

// Each returns an exit code.
int fleet_status(const FleetArgs& args);
int fleet_drain(const FleetArgs& args);
int fleet_grant(const FleetArgs& args);
int fleet_simulate(const FleetArgs& args);
int fleet_systemd(const FleetArgs& args);
int fleet_slurm(const FleetArgs& args);
int fleet_kubernetes(const FleetArgs& args);

}  // namespace tessera::cli
