// Binding threads to cores.
#pragma once

#include <sched.h>

#include "tessera/support/result.h"

namespace tessera::runtime {

// Binds the calling thread to the core-th of target::cpu_order(), counted modulo their number,
// so that a pool larger than the machine still spreads evenly. kInvalidArgument if core < 0.
Result<void> pin_current_thread(int core);

// Leaves the first `count` of target::cpu_order() to others, for the calling thread and those it
// starts from now on. No change where that would leave no core.
Result<void> leave_cores(int count);

// Remembers the calling thread's mask and gives it back when destroyed, on the same thread only.
class ScopedAffinity {
 public:
  ScopedAffinity();
  ~ScopedAffinity();
  ScopedAffinity(const ScopedAffinity&) = delete;
  ScopedAffinity& operator=(const ScopedAffinity&) = delete;

 private:
  pid_t thread_ = 0;
  bool saved_ = false;
  cpu_set_t mask_{};
};

}  // namespace tessera::runtime
