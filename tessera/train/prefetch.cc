#include "tessera/train/prefetch.h"

#include <algorithm>
#include <exception>

namespace tessera::train {

Prefetcher::Prefetcher(std::function<Batch(std::size_t)> make, std::size_t count, int threads,
                       std::size_t ahead)
    : make_(std::move(make)),
      count_(count),
      ahead_(ahead + static_cast<std::size_t>(std::max(threads, 1))) {
  for (int i = 0; i < std::max(threads, 1); ++i) threads_.emplace_back([this] { work(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::work() {
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

std::optional<Batch> Prefetcher::next() {
  std::unique_lock lock(mutex_);
  if (taken_ >= count_) return std::nullopt;
  changed_.wait(lock, [&] { return failure_ || ready_.count(taken_) != 0; });
  if (failure_) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.extract(taken_).mapped());
  ++taken_;
  changed_.notify_all();
  return batch;
}

}  // namespace tessera::train
