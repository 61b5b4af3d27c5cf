#include "tessera/support/parallel.h"

#include <numeric>

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

}  // namespace
}  // namespace tessera
