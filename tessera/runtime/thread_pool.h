// A fork-join pool whose dispatch costs about a microsecond: workers spin for a while, then park.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/runtime/abi.h"

namespace tessera::runtime {

struct PoolOptions {
  int threads = 1;  // including the caller; less than 1 counts as 1
  // Worker i on the i-th allowed core; the constructing thread is worker 0 and gets its old mask
  // back from the destructor. Threads that it starts meanwhile inherit its single core.
  bool pin = false;
  // How long an idle worker spins before it parks. Taken as 0 when there are more threads than
  // cores.
  std::int64_t spin_us = 50;
};

// The calling thread takes part as worker 0. Not reentrant: a parallel_for inside a body runs
// serially under the worker number of that body. Calls from several threads take turns. A body must
// not throw.
class ThreadPool {
 public:
  // Starts fewer threads than asked when the system refuses more; threads() tells.
  explicit ThreadPool(const PoolOptions& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  void parallel_for(tsr_body body, void* closure, std::int64_t n);
  tsr_host* host();  // for generated code; valid as long as the pool

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::runtime
