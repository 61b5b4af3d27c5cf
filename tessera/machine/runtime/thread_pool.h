// A fork-join pool whose dispatch costs a microsecond or two: see fork_join.c for how.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/machine/runtime/abi.h"

namespace tessera::runtime {

struct PoolOptions {
  int threads = 1;  // including the caller; less than 1 counts as 1
  // Worker i on the i-th of target::cpu_order(); the constructing thread is worker 0 and gets its
  // old mask back from the destructor. Threads that it starts meanwhile inherit its single core.
  bool pin = false;
  // How long a worker spins after a run before it sleeps. Nobody spins in a pool that has more
  // threads than the process has processors.
  std::int64_t spin_us = 50;
};

// The calling thread takes part as worker 0. Of a loop that is long enough, worker w runs the w-th
// share first, whatever the loop, and then helps where parts are left. Not reentrant: a
// parallel_for inside a body runs serially under the worker number of that body. Calls from several
// threads take turns. A body must not throw.
class ThreadPool {
 public:
  // Starts fewer threads than asked when the system refuses more; threads() tells.
  explicit ThreadPool(const PoolOptions& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // A run of many loops, such as a whole model: while one lives, workers wait for the next loop
  // awake, for milliseconds. Several may live at once, also on different threads.
  class Session {
   public:
    explicit Session(ThreadPool& pool) : pool_(pool) { pool_.begin_session(); }
    ~Session() { pool_.end_session(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

   private:
    ThreadPool& pool_;
  };

  void begin_session();
  void end_session();

  int threads() const;
  int sleeping() const;  // workers that sleep at this moment
  void parallel_for(tsr_body body, void* closure, std::int64_t n);
  tsr_host* host();  // for generated code; valid as long as the pool

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::runtime
