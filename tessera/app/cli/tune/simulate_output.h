// What `tessera tune --simulate` prints: a table of policies, JSON, a plot.
#pragma once

#include <string>

#include "tessera/app/tune/tune_simulate.h"
#include "tessera/support/json.h"

namespace tessera::cli {

void print_simulation(const app::Simulation& simulation, std::int64_t trials);
Json to_json(const app::Simulation& simulation);
// Score against trials, one line per policy.
std::string plot_svg(const app::Simulation& simulation, std::int64_t trials);

}  // namespace tessera::cli
