#include "tessera/app/bench/watch_steps.h"

#include <algorithm>

#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

// A host that passes loops on to a pool and notes how long each thread worked in them.
class WatchingHost {
 public:
  explicit WatchingHost(runtime::ThreadPool& pool)
      : pool_(pool), busy_(static_cast<std::size_t>(pool.threads())) {
    host_ = {.parallel_for = run, .num_workers = pool.threads(), .state = this};
  }

  tsr_host* host() { return &host_; }
  void begin() {
    loops_s_ = 0;
    std::fill(busy_.begin(), busy_.end(), Busy());
  }
  // Of a kernel that took `seconds` since begin(): beside loops all threads but one wait.
  double waiting_s(double seconds) const {
    double busy_s = 0;
    for (const Busy& b : busy_) busy_s += b.seconds;
    const double threads = static_cast<double>(busy_.size());
    const double beside_s = std::max(0.0, seconds - loops_s_);
    return std::max(0.0, loops_s_ - busy_s / threads) + beside_s * (threads - 1) / threads;
  }

 private:
  struct alignas(64) Busy {  // one line of the cache for each thread
    double seconds = 0;
  };
  struct Loop {
    WatchingHost* self;
    tsr_body body;
    void* closure;
  };

  static void run(tsr_host* host, tsr_body body, void* closure, std::int64_t n) {
    auto* self = static_cast<WatchingHost*>(host->state);
    Loop loop{self, body, closure};
    const Clock::time_point start = Clock::now();
    self->pool_.parallel_for(part, &loop, n);
    self->loops_s_ += seconds_since(start);
  }

  static void part(void* closure, std::int64_t begin, std::int64_t end, std::int32_t worker) {
    const Loop& loop = *static_cast<Loop*>(closure);
    const Clock::time_point start = Clock::now();
    loop.body(loop.closure, begin, end, worker);
    loop.self->busy_[static_cast<std::size_t>(worker)].seconds += seconds_since(start);
  }

  runtime::ThreadPool& pool_;
  tsr_host host_{};
  double loops_s_ = 0;
  std::vector<Busy> busy_;
};

}  // namespace

Result<std::vector<WatchedStep>> watch_steps(const exec::CompiledModel& model,
                                             exec::ModelRunner& runner, int threads) {
  runtime::ThreadPool pool({.threads = threads, .pin = true});
  WatchingHost host(pool);
  const runtime::ThreadPool::Session session(pool);
  std::size_t bytes = runtime::AlignedBuffer::kAlignment;
  for (const auto& kernel : model.kernels) {
    const runtime::KernelInfo& info = static_cast<const runtime::CpuKernel&>(*kernel).info;
    bytes = std::max(
        bytes, static_cast<std::size_t>(info.shared_bytes + info.worker_bytes * pool.threads()));
  }
  const runtime::AlignedBuffer workspace(bytes);
  std::vector<WatchedStep> out;
  for (std::size_t i = 0; i < model.steps.size(); ++i) {
    const exec::CompiledModel::Step& step = model.steps[i];
    WatchedStep& watched = out.emplace_back();
    Clock::time_point start = Clock::now();
    if (step.kind == task::GroupKind::kHost) {
      TESSERA_DO(runner.run_step(i));
      watched.us = watched.again_us = 1e6 * seconds_since(start);
      continue;
    }
    const auto& kernel = static_cast<const runtime::CpuKernel&>(*model.kernels[step.kernel]);
    const auto call = [&](tsr_host* by) {
      start = Clock::now();
      kernel.entry(runner.memory(i).data(), workspace.data(), by);
      return seconds_since(start);
    };
    host.begin();
    const double seconds = call(host.host());
    watched.us = 1e6 * seconds;
    watched.waiting_us = 1e6 * host.waiting_s(seconds);
    watched.again_us = 1e6 * call(pool.host());
  }
  return out;
}

}  // namespace tessera::app
