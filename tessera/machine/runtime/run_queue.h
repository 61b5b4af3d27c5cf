// How long the threads of this process waited for a core, from /proc/self/task/*/schedstat.
#pragma once

#include <cstdint>
#include <map>

namespace tessera::runtime {

// The kernel charges a wait when it ends, so a wait may show only in the interval after the one it
// disturbed.
class RunQueueClock {
 public:
  RunQueueClock();

  // False where the kernel keeps no such statistics; elapsed_wait_ns is then always 0.
  bool available() const { return available_; }

  // Nanoseconds that all threads together waited on run queues since the last call (or
  // construction).
  std::int64_t elapsed_wait_ns();

 private:
  using WaitOfThread = std::map<int, std::int64_t>;
  static WaitOfThread read_waits();

  bool available_ = false;
  WaitOfThread last_;
};

}  // namespace tessera::runtime
