// Batches prepared ahead of their use by other threads, handed out in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace tessera::train {

template <class Batch>
class Prefetcher {
 public:
  // Calls make(first) ... make(count - 1) on `threads` threads, at most `ahead` beyond the last one
  // taken.
  Prefetcher(std::function<Batch(std::size_t)> make, std::size_t count, int threads,
             std::size_t ahead = 4, std::size_t first = 0)
      : make_(std::move(make)),
        count_(count),
        ahead_(ahead + static_cast<std::size_t>(std::max(threads, 1))),
        claimed_(first),
        taken_(first) {
    for (int i = 0; i < std::max(threads, 1); ++i) threads_.emplace_back([this] { work(); });
  }
  ~Prefetcher() {  // does not wait for batches that nobody took
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  std::optional<Batch> next() {  // nothing after the last one
    std::unique_lock lock(mutex_);
    if (taken_ >= count_) return std::nullopt;
    changed_.wait(lock, [&] { return failure_ || ready_.count(taken_) != 0; });
    if (failure_) std::rethrow_exception(failure_);
    Batch batch = std::move(ready_.extract(taken_).mapped());
    ++taken_;
    changed_.notify_all();
    return batch;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] {
        return stopping_ || failure_ || claimed_ >= count_ || claimed_ < taken_ + ahead_;
      });
      if (stopping_ || failure_ || claimed_ >= count_) return;
      const std::size_t index = claimed_++;
      lock.unlock();
      std::optional<Batch> batch;
      std::exception_ptr failure;
      try {
        batch = make_(index);
      } catch (...) {  // handed to the thread that takes batches
        failure = std::current_exception();
      }
      lock.lock();
      if (failure) failure_ = failure;
      if (batch) ready_.emplace(index, std::move(*batch));
      changed_.notify_all();
    }
  }

  std::function<Batch(std::size_t)> make_;
  std::size_t count_, ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t claimed_, taken_;  // guarded, as are the following
  bool stopping_ = false;
  std::map<std::size_t, Batch> ready_;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::train
