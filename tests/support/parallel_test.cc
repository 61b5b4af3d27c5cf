#include "tessera/support/parallel.h"

#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Workers, TakeEveryTurnOnceLoopAfterLoop) {
  Workers workers(4);
  for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 1000U}) {
    for (int loop = 0; loop < 50; ++loop) {
      std::vector<int> taken(count, 0);
      workers.parts(count, 2, [&](std::size_t i, std::size_t end) {
        for (; i < end; ++i) ++taken[i];
      });
      EXPECT_EQ(std::accumulate(taken.begin(), taken.end(), 0), static_cast<int>(count));
      EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](int n) { return n == 1; })) << count;
    }
  }
}

TEST(Workers, ShortLoopsStayWithTheCaller) {
  Workers workers(8);
  const std::thread::id here = std::this_thread::get_id();
  std::size_t parts = 0;
  workers.parts(15, 8, [&](std::size_t begin, std::size_t end) {
    EXPECT_EQ(std::this_thread::get_id(), here);
    EXPECT_EQ(begin, 0u);
    EXPECT_EQ(end, 15u);
    ++parts;
  });
  EXPECT_EQ(parts, 1u);
}

TEST(Workers, OneIsTheCaller) {
  Workers workers(0);
  std::size_t turns = 0;
  workers.parts(100, 1, [&](std::size_t begin, std::size_t end) { turns += end - begin; });
  EXPECT_EQ(turns, 100u);
}

TEST(ParallelFor, TakesEveryTurnOnce) {
  for (const int threads : {-1, 0, 1, 3, 16}) {
    for (const std::size_t count : {0U, 1U, 7U, 1000U}) {
      std::vector<int> taken(count, 0);
      parallel_for(count, threads, [&](std::size_t i) { ++taken[i]; });
      EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](int n) { return n == 1; }))
          << threads << " threads, " << count << " turns";
    }
  }
}

TEST(ParallelFor, NumbersItsThreads) {
  std::mutex mutex;
  std::map<std::size_t, std::set<std::thread::id>> seen;
  parallel_for(1000, 3, [&](std::size_t, std::size_t thread) {
    const std::lock_guard lock(mutex);
    seen[thread].insert(std::this_thread::get_id());
  });
  EXPECT_LE(seen.size(), 3u);
  for (const auto& [thread, ids] : seen) {
    EXPECT_LT(thread, 3u);
    EXPECT_EQ(ids.size(), 1u) << "thread " << thread;
  }
  if (seen.contains(0)) {
    EXPECT_TRUE(seen[0].contains(std::this_thread::get_id()));
  }
}

TEST(ParallelFor, OneThreadIsTheCallerInOrder) {
  std::vector<std::size_t> order;
  parallel_for(5, 1, [&](std::size_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

TEST(TryParallelFor, SucceedsWhenAllDo) {
  std::atomic<int> turns{0};
  EXPECT_TRUE(try_parallel_for(100, 4, [&](std::size_t) -> Result<void> {
                ++turns;
                return {};
              }).ok());
  EXPECT_EQ(turns, 100);
}

TEST(TryParallelFor, TellsTheFirstFailureOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 8}) {
    for (int again = 0; again < 20; ++again) {
      const Result<void> done = try_parallel_for(100, threads, [&](std::size_t i) -> Result<void> {
        if (i % 10 == 7) return make_error(ErrorCode::kRunFailed, "turn {}", i);
        return {};
      });
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().message, "turn 7");
    }
  }
}

TEST(TryParallelFor, BeginsNothingAfterAFailure) {
  std::vector<std::size_t> begun;
  const Result<void> done =
      try_parallel_for(100, 1, [&](std::size_t i, std::size_t thread) -> Result<void> {
        EXPECT_EQ(thread, 0u);
        begun.push_back(i);
        if (i == 2) return make_error(ErrorCode::kRunFailed, "no");
        return {};
      });
  EXPECT_FALSE(done.ok());
  EXPECT_EQ(begun, (std::vector<std::size_t>{0, 1, 2}));
}

}  // namespace
}  // namespace tessera
