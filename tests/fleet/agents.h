// Agents that work for the sessions of a test.
#pragma once

#include <string>

#include "tessera/trials/fleet/roster.h"

namespace tessera::fleet {

inline Result<std::int64_t> new_agent(const Queue& queue, const std::string& name) {
  Roster roster(queue);
  TESSERA_TRY(const std::int64_t agent, roster.add_agent({.name = name}));
  for (const std::int64_t session : {1, 2, 7, 8}) {
    TESSERA_TRY([[maybe_unused]] const bool joined, roster.join(session, agent, 0));
  }
  return agent;
}

}  // namespace tessera::fleet
