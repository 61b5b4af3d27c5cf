#include "tessera/support/rng.h"

#include <array>

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Rng, StreamIsFixedForever) {  // the published splitmix64 stream of seed 0
  Rng rng(0);
  EXPECT_EQ(rng.next(), 0xe220a8397b1dcdafu);
  EXPECT_EQ(rng.next(), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(rng.next(), 0x06c45d188009454fu);
}

TEST(Rng, BelowCoversItsRange) {
  Rng rng(7);
  std::array<int, 5> seen{};
  for (int i = 0; i < 1000; ++i) ++seen[static_cast<std::size_t>(rng.below(5))];
  for (const int count : seen) EXPECT_GT(count, 100);
}

TEST(Rng, BetweenIncludesBothEnds) {
  Rng rng(7);
  bool low = false, high = false;
  for (int i = 0; i < 200; ++i) {
    const auto v = rng.between(-2, 2);
    ASSERT_GE(v, -2);
    ASSERT_LE(v, 2);
    low = low || v == -2;
    high = high || v == 2;
  }
  EXPECT_TRUE(low && high);
}

TEST(Rng, UniformStaysBelowOne) {
  Rng rng(9);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double v = rng.uniform();
    ASSERT_GE(v, 0);
    ASSERT_LT(v, 1);
    sum += v;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);  // seven standard deviations of the mean
}

TEST(Rng, ForkIsIndependentOfLaterUse) {
  Rng a(5), b(5);
  Rng fork_a = a.fork();
  Rng fork_b = b.fork();
  a.next();
  EXPECT_EQ(fork_a.next(), fork_b.next());
  EXPECT_NE(fork_a.next(), b.next());
}

}  // namespace
}  // namespace tessera
