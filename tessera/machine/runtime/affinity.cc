#include "tessera/machine/runtime/affinity.h"

#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "tessera/machine/target/cpus.h"

namespace tessera::runtime {

Result<void> pin_current_thread(int core) {
  if (core < 0) return make_error(ErrorCode::kInvalidArgument, "core {} is negative", core);
  const std::vector<int>& cpus = target::cpu_order();
  const int cpu = cpus[static_cast<std::size_t>(core) % cpus.size()];
  if (cpu >= CPU_SETSIZE) {
    return make_error(ErrorCode::kUnsupported, "processor {} is beyond {}", cpu, CPU_SETSIZE);
  }
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(static_cast<std::size_t>(cpu), &mask);
  if (sched_setaffinity(0, sizeof(mask), &mask) != 0) {
    return make_error(ErrorCode::kUnavailable, "cannot run on processor {}: {}", cpu,
                      std::strerror(errno));
  }
  return {};
}

Result<void> leave_cores(int count) {
  const std::vector<int>& cpus = target::cpu_order();
  const auto left = static_cast<std::size_t>(count < 0 ? 0 : count);
  if (left >= cpus.size()) return {};
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (std::size_t i = left; i < cpus.size(); ++i) {
    if (cpus[i] < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpus[i]), &mask);
  }
  if (sched_setaffinity(0, sizeof(mask), &mask) != 0) {
    return make_error(ErrorCode::kUnavailable, "cannot leave {} cores: {}", count,
                      std::strerror(errno));
  }
  return {};
}

ScopedAffinity::ScopedAffinity() : thread_(gettid()) {
  saved_ = sched_getaffinity(0, sizeof(mask_), &mask_) == 0;
}

ScopedAffinity::~ScopedAffinity() {
  if (saved_ && gettid() == thread_) sched_setaffinity(0, sizeof(mask_), &mask_);
}

}  // namespace tessera::runtime
