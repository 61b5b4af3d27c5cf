// What a forked process does first, and how its end is told.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace tessera::measure {

// For a fresh child: keeps only the standard streams (on /dev/null) and `keep`, takes default
// dispositions and an empty mask of signals, ignores the interrupt key (the owner decides), writes
// no core files, and shows `name` (at most 15 characters) in process lists. The rest of the owner's
// descriptors must go: a copy of a socket would hide its end from the peer.
void become_worker(int keep, const char* name);

// Dies with `parent`, even when it is killed: call after fork() with the pid of the process that
// forked. Needs a parent of one thread.
void die_with(pid_t parent);

// Restricts the calling process to these processors; a refusal leaves it where it was.
void use_processors(const std::vector<int>& processors);

const char* signal_name(int signal);  // "SIGSEGV"; "a signal" if it has no common name

}  // namespace tessera::measure
