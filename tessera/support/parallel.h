// Loops whose turns do not depend on each other.
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tessera/support/result.h"

namespace tessera {

// Calls work(i), or work(i, thread), for every i in [0, count) on at most `threads` threads, the
// caller (thread 0) among them: whoever is free takes the next i. Returns when all are done.
template <class Work>
void parallel_for(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto take_turns = [&]([[maybe_unused]] std::size_t thread) {
    for (std::size_t i = next++; i < count; i = next++) {
      if constexpr (std::invocable<const Work&, std::size_t, std::size_t>) {
        work(i, thread);
      } else {
        work(i);
      }
    }
  };
  const std::size_t most = std::min(count, static_cast<std::size_t>(std::max(1, threads)));
  std::vector<std::jthread> others;  // they end before what they use
  for (std::size_t t = 1; t < most; ++t) others.emplace_back(take_turns, t);
  take_turns(0);
}

// The same for work that may fail: what has not begun when something fails never begins. The error
// is that of the lowest i that fails, whatever the number of threads.
template <class Work>
Result<void> try_parallel_for(std::size_t count, int threads, const Work& work) {
  std::mutex mutex;
  std::optional<Error> error;
  std::atomic<std::size_t> failed{count};
  parallel_for(count, threads, [&](std::size_t i, [[maybe_unused]] std::size_t thread) {
    if (i > failed) return;
    const auto run = [&]() -> Result<void> {
      if constexpr (std::invocable<const Work&, std::size_t, std::size_t>) {
        return work(i, thread);
      } else {
        return work(i);
      }
    };
    const Result<void> done = run();
    if (done.ok()) return;
    const std::lock_guard lock(mutex);
    if (i > failed) return;
    failed = i;
    error = done.error();
  });
  if (error) return *error;
  return {};
}

// Threads that wait for loops: starting one for each would take as long as a short loop. They begin
// with the first loop that needs them. One loop at a time.
class Workers {
 public:
  // The caller of parts() among them; less than 1 counts as 1.
  explicit Workers(int threads) : most_(static_cast<std::size_t>(std::max(1, threads))) {}
  ~Workers() {
    ended_ = true;
    call();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Calls work(begin, end) for parts of [0, count) on several threads. No part but the last has
  // fewer than `least` turns: waking a thread takes tens of microseconds.
  template <class Work>
  void parts(std::size_t count, std::size_t least, const Work& work) {
    const std::size_t parts =
        std::clamp<std::size_t>(count / std::max<std::size_t>(1, least), 1, most_);
    if (parts == 1) {
      work(std::size_t{0}, count);
      return;
    }
    const std::size_t each = (count + parts - 1) / parts;
    const auto run = [&](std::size_t part) {
      work(std::min(count, part * each), std::min(count, (part + 1) * each));
    };
    share(
        parts, [](const void* own, std::size_t part) { (*static_cast<decltype(&run)>(own))(part); },
        &run);
  }

 private:
  using Run = void (*)(const void* loop, std::size_t part);

  void share(std::size_t parts, Run run, const void* loop) {
    while (threads_.size() + 1 < most_) threads_.emplace_back([this] { wait(); });
    run_ = run;
    loop_ = loop;
    parts_ = parts;
    next_ = 0;
    busy_ = threads_.size();
    call();
    take_parts();
    for (std::size_t busy = busy_; busy != 0; busy = busy_) busy_.wait(busy);
  }
  void call() {
    ++calls_;
    calls_.notify_all();
  }
  void take_parts() {
    for (std::size_t part = next_++; part < parts_; part = next_++) run_(loop_, part);
  }
  void wait() {
    for (std::uint64_t seen = 0;;) {
      calls_.wait(seen);
      ++seen;
      if (ended_) return;
      take_parts();
      if (--busy_ == 0) busy_.notify_one();
    }
  }

  const std::size_t most_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::size_t> next_{0}, busy_{0};
  std::atomic<bool> ended_{false};
  Run run_ = nullptr;
  const void* loop_ = nullptr;
  std::size_t parts_ = 0;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

}  // namespace tessera
