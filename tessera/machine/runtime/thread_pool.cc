#include "tessera/machine/runtime/thread_pool.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>

#include "tessera/machine/runtime/affinity.h"
#include "tessera/machine/runtime/fork_join.h"
#include "tessera/machine/target/cpus.h"

namespace tessera::runtime {
namespace {

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

// A loop's body with the frame that its nested loops look for.
struct FramedBody {
  const void* pool;
  tsr_body body;
  void* closure;

  static void run(void* self, std::int64_t begin, std::int64_t end, std::int32_t worker) {
    const auto& framed = *static_cast<const FramedBody*>(self);
    const ScopedFrame frame(framed.pool, worker);
    framed.body(framed.closure, begin, end, worker);
  }
};

struct DestroyPool {
  void operator()(tsr_pool* pool) const { tsr_pool_destroy(pool); }
};

}  // namespace

struct ThreadPool::Impl {
  explicit Impl(const PoolOptions& options);

  void parallel_for(tsr_body body, void* closure, std::int64_t n);

  std::unique_ptr<tsr_pool, DestroyPool> pool;
  std::mutex turn;  // held by the thread whose loop it is
  std::optional<ScopedAffinity> caller_affinity;
  tsr_host host{};
};

ThreadPool::Impl::Impl(const PoolOptions& options) {
  const std::vector<int>& order = target::cpu_order();
  const tsr_pool_options core{.threads = options.threads,
                              .processors = target::usable_cpus(),
                              .linger_ns = options.spin_us * 1000,
                              .pin = options.pin ? order.data() : nullptr,
                              .pin_count = static_cast<std::int32_t>(order.size())};
  pool.reset(tsr_pool_create(&core));
  if (pool == nullptr) throw std::bad_alloc();
  if (options.pin) {
    caller_affinity.emplace();
    // A refusal leaves the threads where the system puts them: slower at worst.
    static_cast<void>(pin_current_thread(0));
  }
  host.num_workers = tsr_pool_threads(pool.get());
  host.state = this;
  host.parallel_for = [](tsr_host* self, tsr_body loop_body, void* loop_closure, std::int64_t n) {
    static_cast<Impl*>(self->state)->parallel_for(loop_body, loop_closure, n);
  };
}

void ThreadPool::Impl::parallel_for(tsr_body body, void* closure, std::int64_t n) {
  if (n <= 0) return;
  if (const Frame* frame = find_frame(this)) {
    body(closure, 0, n, frame->worker);
    return;
  }
  const std::lock_guard lock(turn);
  FramedBody framed{this, body, closure};
  tsr_pool_loop(pool.get(), FramedBody::run, &framed, n);
}

ThreadPool::ThreadPool(const PoolOptions& options) : impl_(std::make_unique<Impl>(options)) {}

ThreadPool::~ThreadPool() = default;

void ThreadPool::begin_session() { tsr_pool_begin(impl_->pool.get()); }

void ThreadPool::end_session() { tsr_pool_end(impl_->pool.get()); }

int ThreadPool::threads() const { return impl_->host.num_workers; }

int ThreadPool::sleeping() const { return tsr_pool_asleep(impl_->pool.get()); }

void ThreadPool::parallel_for(tsr_body body, void* closure, std::int64_t n) {
  impl_->parallel_for(body, closure, n);
}

tsr_host* ThreadPool::host() { return &impl_->host; }

}  // namespace tessera::runtime
