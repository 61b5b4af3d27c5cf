// A forked process that serves one channel.
#pragma once

#include <functional>

#include <sys/types.h>

#include "tessera/trials/measure/wire.h"

namespace tessera::measure {

// Forks a process of that name (at most 15 characters) which dies with the caller, runs `serve` on
// one end of a channel and exits; the other end becomes *channel. 0 when the system refuses, also
// after some tries. The caller must have one thread.
pid_t fork_worker(const char* name, const std::function<void(Channel&)>& serve, Channel* channel);

// Ends it and returns its wait status.
int bury_worker(pid_t pid);

}  // namespace tessera::measure
