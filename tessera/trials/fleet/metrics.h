// What an agent did, as Prometheus reads it.
#pragma once

#include <string>

#include "tessera/trials/fleet/agent.h"

namespace tessera::fleet {

// Prometheus' text format, version 0.0.4.
std::string metrics_text(const AgentOptions& agent, const AgentProgress& progress);

}  // namespace tessera::fleet
