#include "tessera/machine/runtime/run_queue.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include <dirent.h>
#include <fmt/format.h>

namespace tessera::runtime {
namespace {

struct SchedStat {
  long long run_ns = 0, wait_ns = 0;
};

bool read_schedstat(const char* path, SchedStat& stat) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "re"), std::fclose);
  return file != nullptr && std::fscanf(file.get(), "%lld %lld", &stat.run_ns, &stat.wait_ns) == 2;
}

}  // namespace

RunQueueClock::RunQueueClock() {
  SchedStat own;
  // A kernel built without the statistics shows zeros: this thread has certainly run.
  available_ = read_schedstat("/proc/self/schedstat", own) && own.run_ns > 0;
  if (available_) last_ = read_waits();
}

RunQueueClock::WaitOfThread RunQueueClock::read_waits() {
  WaitOfThread waits;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/task"), closedir);
  if (folder == nullptr) return waits;
  while (const dirent* entry = readdir(folder.get())) {
    const int thread = std::atoi(entry->d_name);
    SchedStat stat;
    if (thread > 0 &&
        read_schedstat(fmt::format("/proc/self/task/{}/schedstat", thread).c_str(), stat)) {
      waits[thread] = stat.wait_ns;
    }
  }
  return waits;
}

std::int64_t RunQueueClock::elapsed_wait_ns() {
  if (!available_) return 0;
  WaitOfThread now = read_waits();
  std::int64_t elapsed = 0;
  for (const auto& [thread, wait_ns] : now) {
    const auto before = last_.find(thread);
    const std::int64_t since = before == last_.end() ? 0 : before->second;
    // Less than before means that the kernel gave the number to another thread.
    elapsed += wait_ns >= since ? wait_ns - since : wait_ns;
  }
  last_ = std::move(now);
  return elapsed;
}

}  // namespace tessera::runtime
