// The processors and the memory this process may use, and the caches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::target {

// Kernel numbers of the processors allowed when this was first called, ascending, at least one.
// Fixed from then on: a thread that pins itself later does not shrink the list.
const std::vector<int>& allowed_cpus();

// Processors by what a thread gains on each: one of every core before the second thread of any,
// fast cores before slow ones. Reads root + /sys/devices/system/cpu.
struct CpuOrder {
  std::vector<int> cpus;
  int cores = 0;  // so many of the first are worth a thread of their own
};
CpuOrder order_cpus(const std::string& root, std::vector<int> cpus);

// Whole processors that the control groups (version 1 or 2) of the process pay for; 0: no limit.
// Reads root + /proc/self/cgroup and root + /sys/fs/cgroup.
int cpu_quota(const std::string& root);

// Bytes that the control groups (version 1 or 2) of the process may use; 0: no limit. Reads as
// above.
std::int64_t memory_limit(const std::string& root);

// allowed_cpus() in that order. Threads are pinned along it.
const std::vector<int>& cpu_order();

// How many threads can run at once: the allowed processors, or the quota where that is less.
int usable_cpus();

// How many threads to start when the user does not say: one per core that is worth it, two where
// there are two processors at all, at most the quota.
int default_threads();

// Bytes of memory this process can use: the machine's, or the limit of its control groups where
// that is less; 0: unknown. As found when first called.
std::int64_t usable_memory();

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

// "0-3,8,10-11" has 7 members; 0 for other text.
int count_cpu_list(const std::string& list);

}  // namespace tessera::target
