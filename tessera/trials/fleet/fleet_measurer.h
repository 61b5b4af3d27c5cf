// A measurer whose trials are measured by the agents of a fleet.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/trials/fleet/fit.h"
#include "tessera/trials/measure/measurer.h"

namespace tessera::fleet {

struct FleetOptions {
  std::string database;  // a file or a URL
  std::string name;      // of the tuning, for people
  std::string version;   // of the program; agents have the same
  AgentChoice agents;
  double weight = 1;       // beside other tunings
  double patience_s = 60;  // without an agent that fits, or without the database
  std::function<bool()> interrupted;
  std::function<void(const std::string&)> note;  // one line for people
};

// Waits until an agent works for it. kUnavailable: none came, and why those that are there do not
// fit; the database cannot be had. kUnsupported: what agents do not measure (trials in place).
// What is compared runs on one machine, side by side: another than the one that reported the best
// of it, where there is another. Where they disagree a note says so, the tuning takes nothing more
// of that agent, and take_doubted() names it. Nothing stays queued or claimed when the measurer
// ends.
Result<std::unique_ptr<measure::Measurer>> start_fleet_measurer(
    const FleetOptions& fleet, std::vector<measure::MeasuredTask> tasks,
    const target::Target& target, const measure::MeasureOptions& options);

}  // namespace tessera::fleet
