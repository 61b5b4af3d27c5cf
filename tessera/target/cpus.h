// The processors this process may use, and their caches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::target {

// Kernel numbers of the processors allowed when this was first called, ascending, at least one.
// Fixed from then on: a thread that pins itself later does not shrink the list.
const std::vector<int>& allowed_cpus();

// Data caches as one core sees them; a cache shared by several cores below the last level counts by
// its share.
struct Caches {
  std::int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;
  int line_bytes = 64;
};

// Reads a folder laid out like /sys/devices/system/cpu/cpu0/cache; what it does not tell stays 0
// (line_bytes 64).
Caches read_caches(const std::string& folder);

// The caches of processor `cpu`; sysconf and then common sizes fill what the kernel does not tell.
Caches host_caches(int cpu);

// "0-3,8,10-11" has 7 members; 0 for text that is no such list.
int count_cpu_list(const std::string& list);

}  // namespace tessera::target
