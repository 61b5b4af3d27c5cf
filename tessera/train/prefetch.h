// Batches prepared ahead of their use by other threads, handed out in order.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tessera/train/batches.h"

namespace tessera::train {

class Prefetcher {
 public:
  // Calls make(0) ... make(count - 1) on `threads` threads, at most `ahead` beyond the last one
  // taken.
  Prefetcher(std::function<Batch(std::size_t)> make, std::size_t count, int threads,
             std::size_t ahead = 4);
  ~Prefetcher();  // does not wait for batches that nobody took
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  std::optional<Batch> next();  // nothing after the last one

 private:
  void work();

  std::function<Batch(std::size_t)> make_;
  std::size_t count_, ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t claimed_ = 0, taken_ = 0;  // guarded, as are the following
  bool stopping_ = false;
  std::map<std::size_t, Batch> ready_;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::train
