// What keeps the code of candidates from harming the machine: limits of the process, and a filter
// of system calls where the kernel has one.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::target {
struct Target;
}

namespace tessera::measure {

enum class Work : std::uint8_t {
  kCode,    // runs code of candidates, or compiles it in this process
  kDevice,  // uses the driver of a GPU, or its assembler: programs and libraries of others
};

Work work_of(const target::Target& target);

// For a worker, before it starts threads. From then on the limits and the processors of other
// processes are out of its reach, and:
// - kCode: it can read /proc, /sys and the libraries of the system and of this program (all files
//   where the kernel has no Landlock), take memory up to three quarters of the machine's, and use
//   what descriptors and threads need. It ends with SIGSYS when it writes files, starts programs or
//   processes, opens sockets, or touches other processes; other system calls fail with EPERM.
// - kDevice: it can write devices, temporary files and the caches of drivers, and nothing else
//   (where the kernel has Landlock). The network, other processes and the ways out of a sandbox are
//   refused with EPERM.
// Returns why there is no filter; empty: there is.
std::string confine_process(Work work = Work::kCode);

// Allows the process so many more seconds of processor time, of all threads together; SIGXCPU ends
// it after that.
void limit_cpu_time(double seconds);

// A line for the user where confine_process would run without the filter: tried in a process of its
// own, once. Empty: all is well.
const std::string& confinement_note();

}  // namespace tessera::measure
