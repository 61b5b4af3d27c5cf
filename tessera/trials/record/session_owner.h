// Which process a session runs in, so that one that was killed is not taken for a running one.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::record {

// "running PID START HOST": the state that a session of this process is kept with.
std::string running_here();

// A session of another machine that was not seen for so long is taken to be gone.
inline constexpr std::int64_t kSessionGoneS = 900;

// The state for people: "running" only as long as the process is there, then "killed". A process of
// another machine cannot be asked: it runs as long as it was seen lately. `silent_s`: since then;
// below 0: it never tells, as older programs, and counts as running. Programs that named no process
// count as killed.
std::string state_now(const std::string& kept, std::int64_t silent_s);

}  // namespace tessera::record
