// What keeps the code of candidates from harming the machine: limits of the process, and a filter
// of system calls where the kernel has one.
#pragma once

#include <string>

namespace tessera::measure {

// For a run worker, before it starts threads. From then on the process can read files, take memory
// up to three quarters of the machine's, and use what descriptors and threads need. It ends with
// SIGSYS when it writes files, starts programs or processes, opens sockets, or touches other
// processes; other system calls fail with EPERM. Returns why there is no filter; empty: there is.
std::string confine_process();

// Allows the process so many more seconds of processor time, of all threads together; SIGXCPU ends
// it after that.
void limit_cpu_time(double seconds);

// A line for the user where confine_process would run without the filter: tried in a process of its
// own, once. Empty: all is well.
const std::string& confinement_note();

}  // namespace tessera::measure
