// Which process a session runs in, so that one that was killed is not taken for a running one.
#pragma once

#include <string>

namespace tessera::record {

// "running PID START HOST": the state that a session of this process is kept with.
std::string running_here();

// The state for people: "running" only as long as the process is there, then "killed". A process of
// another machine cannot be asked and counts as running; older programs named none, and count as
// killed.
std::string state_now(const std::string& kept);

}  // namespace tessera::record
