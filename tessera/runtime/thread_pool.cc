#include "tessera/runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "tessera/runtime/affinity.h"
#include "tessera/target/cpus.h"

namespace tessera::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// Destructive interference size; 128 because Apple cores and Intel's adjacent-line prefetcher work
// on pairs.
constexpr std::size_t kLine = 128;

void relax() {
#if defined(__aarch64__)
  // `yield` is a no-op on most cores; `isb` stalls for some ten nanoseconds, as x86's `pause` does.
  __asm__ volatile("isb" ::: "memory");
#else
  __builtin_ia32_pause();
#endif
}

// Calls done() until it holds or spin_us passed; false in the latter case.
template <class Done>
bool spin_until(std::int64_t spin_us, Done done) {
  if (done()) return true;
  if (spin_us <= 0) return false;
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(spin_us);
  do {
    for (int i = 0; i < 32; ++i) {  // the clock costs as much as a few looks
      relax();
      if (done()) return true;
    }
  } while (Clock::now() < end);
  return false;
}

// One atomic word says everything about the current loop:
//   bits 0-15   workers inside it, the caller not counted
//   bit 16      open: workers may still enter
//   bit 17      the caller sleeps until the count is zero
//   bits 18-63  number of the loop
// A worker enters by adding one to an open word. The caller closes the word when no iterations are
// left and then waits only for those inside: a worker that the system has not scheduled yet delays
// nobody.
constexpr std::uint64_t kInside = 0xffff;
constexpr std::uint64_t kOpen = 1 << 16;
constexpr std::uint64_t kCallerSleeps = 1 << 17;
constexpr int kLoopShift = 18;
constexpr int kMaxThreads = 0xffff;

// The loops that the current thread is inside of, innermost first.
struct Frame {
  const void* pool;
  int worker;
  const Frame* outer;
};
thread_local const Frame* innermost = nullptr;

class ScopedFrame {
 public:
  ScopedFrame(const void* pool, int worker) : frame_{pool, worker, innermost} {
    innermost = &frame_;
  }
  ~ScopedFrame() { innermost = frame_.outer; }
  ScopedFrame(const ScopedFrame&) = delete;
  ScopedFrame& operator=(const ScopedFrame&) = delete;

 private:
  Frame frame_;
};

const Frame* find_frame(const void* pool) {
  const Frame* frame = innermost;
  while (frame != nullptr && frame->pool != pool) frame = frame->outer;
  return frame;
}

}  // namespace

// The padding keeps counters that different threads write on lines of their own.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct ThreadPool::Impl {
  explicit Impl(const PoolOptions& options);
  ~Impl();

  void parallel_for(tsr_body body, void* closure, std::int64_t n);
  void run_loop(std::int64_t n);
  void wake_workers(int sleepers);
  void run_chunks(int worker);
  void wait_for_workers();
  void work(int worker, bool pin);
  void serve(int worker, std::uint64_t& last_loop);
  bool has_news(std::uint64_t last_loop) const;

  // The loop; written by the caller while no worker is inside.
  tsr_body body = nullptr;
  void* closure = nullptr;
  std::int64_t count = 0;
  std::int64_t chunk = 1;

  alignas(kLine) std::atomic<std::uint64_t> word{0};
  alignas(kLine) std::atomic<std::int64_t> next{0};
  alignas(kLine) std::atomic<int> parked{0};
  std::atomic<bool> stop{false};
  std::mutex park_mutex;
  std::condition_variable wake;      // parked workers
  std::condition_variable all_left;  // the sleeping caller

  std::mutex turn;  // held by the thread whose loop it is
  std::int64_t spin_us = 0;
  std::optional<ScopedAffinity> caller_affinity;
  tsr_host host{};
  std::vector<std::thread> workers;
};

ThreadPool::Impl::Impl(const PoolOptions& options) {
  const int wanted = std::clamp(options.threads, 1, kMaxThreads);
  const int cores = static_cast<int>(target::allowed_cpus().size());
  spin_us = wanted > cores ? 0 : options.spin_us;
  workers.reserve(static_cast<std::size_t>(wanted));
  try {
    for (int i = 1; i < wanted; ++i) {
      workers.emplace_back([this, i, pin = options.pin] { work(i, pin); });
    }
  } catch (const std::system_error&) {
    // The process may start no more threads: the pool is as large as it got.
  }
  if (options.pin) {
    caller_affinity.emplace();
    // A refusal leaves the threads where the system puts them: slower at worst.
    static_cast<void>(pin_current_thread(0));
  }
  host.num_workers = static_cast<std::int32_t>(workers.size()) + 1;
  host.state = this;
  host.parallel_for = [](tsr_host* self, tsr_body loop_body, void* loop_closure, std::int64_t n) {
    static_cast<Impl*>(self->state)->parallel_for(loop_body, loop_closure, n);
  };
}

ThreadPool::Impl::~Impl() {
  {
    const std::lock_guard lock(park_mutex);
    stop.store(true, std::memory_order_seq_cst);
  }
  wake.notify_all();
  for (std::thread& worker : workers) worker.join();
}

void ThreadPool::Impl::parallel_for(tsr_body loop_body, void* loop_closure, std::int64_t n) {
  if (n <= 0) return;
  if (const Frame* frame = find_frame(this)) {
    loop_body(loop_closure, 0, n, frame->worker);
    return;
  }
  const std::lock_guard lock(turn);
  const ScopedFrame frame(this, 0);
  if (n == 1 || workers.empty()) {
    loop_body(loop_closure, 0, n, 0);
    return;
  }
  body = loop_body;
  closure = loop_closure;
  run_loop(n);
}

void ThreadPool::Impl::run_loop(std::int64_t n) {
  count = n;
  chunk = std::max<std::int64_t>(1, n / (4 * std::int64_t{host.num_workers}));
  next.store(0, std::memory_order_relaxed);
  const std::uint64_t loop = (word.load(std::memory_order_relaxed) >> kLoopShift) + 1;
  // Sequentially consistent, as is the count of parked workers: either this thread sees the worker
  // parked, or the worker sees the loop before it sleeps.
  word.store(loop << kLoopShift | kOpen, std::memory_order_seq_cst);
  if (const int sleepers = parked.load(std::memory_order_seq_cst); sleepers > 0) {
    wake_workers(sleepers);
  }
  run_chunks(0);
  wait_for_workers();
}

void ThreadPool::Impl::wake_workers(int sleepers) {
  // Taking the mutex once orders the notification after the worker's last look at the word.
  { const std::lock_guard lock(park_mutex); }
  const std::int64_t helpers = (count + chunk - 1) / chunk - 1;
  if (helpers >= sleepers) return wake.notify_all();
  for (std::int64_t i = 0; i < helpers; ++i) wake.notify_one();
}

void ThreadPool::Impl::run_chunks(int worker) {
  const std::int64_t end = count;
  const std::int64_t step = chunk;
  for (;;) {
    const std::int64_t begin = next.fetch_add(step, std::memory_order_relaxed);
    if (begin >= end) return;
    body(closure, begin, std::min(begin + step, end), worker);
  }
}

void ThreadPool::Impl::wait_for_workers() {
  const auto empty = [this] { return (word.load(std::memory_order_acquire) & kInside) == 0; };
  if ((word.fetch_and(~kOpen, std::memory_order_acq_rel) & kInside) == 0) return;
  if (spin_until(spin_us, empty)) return;
  std::unique_lock lock(park_mutex);
  if ((word.fetch_or(kCallerSleeps, std::memory_order_acq_rel) & kInside) == 0) return;
  all_left.wait(lock, empty);
}

bool ThreadPool::Impl::has_news(std::uint64_t last_loop) const {
  const std::uint64_t now = word.load(std::memory_order_seq_cst);
  const bool open = (now & kOpen) != 0 && now >> kLoopShift != last_loop;
  return open || stop.load(std::memory_order_relaxed);
}

void ThreadPool::Impl::work(int worker, bool pin) {
  if (pin) static_cast<void>(pin_current_thread(worker));
  const ScopedFrame frame(this, worker);
  std::uint64_t last_loop = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    if (!spin_until(spin_us, [&] { return has_news(last_loop); })) {
      parked.fetch_add(1, std::memory_order_seq_cst);
      {
        std::unique_lock lock(park_mutex);
        wake.wait(lock, [&] { return has_news(last_loop); });
      }
      parked.fetch_sub(1, std::memory_order_relaxed);
    }
    serve(worker, last_loop);
  }
}

void ThreadPool::Impl::serve(int worker, std::uint64_t& last_loop) {
  std::uint64_t now = word.load(std::memory_order_acquire);
  do {
    if ((now & kOpen) == 0 || now >> kLoopShift == last_loop) return;
  } while (!word.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire));
  last_loop = now >> kLoopShift;
  run_chunks(worker);
  const std::uint64_t before = word.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & kInside) == 1 && (before & kCallerSleeps) != 0) {
    { const std::lock_guard lock(park_mutex); }
    all_left.notify_one();
  }
}

ThreadPool::ThreadPool(const PoolOptions& options) : impl_(std::make_unique<Impl>(options)) {}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return impl_->host.num_workers; }

void ThreadPool::parallel_for(tsr_body body, void* closure, std::int64_t n) {
  impl_->parallel_for(body, closure, n);
}

tsr_host* ThreadPool::host() { return &impl_->host; }

}  // namespace tessera::runtime
