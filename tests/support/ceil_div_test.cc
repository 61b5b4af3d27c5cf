#include "tessera/support/ceil_div.h"

#include <limits>

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(CeilDiv, RoundsUp) {
  EXPECT_EQ(ceil_div(0, 3), 0);
  EXPECT_EQ(ceil_div(1, 3), 1);
  EXPECT_EQ(ceil_div(3, 3), 1);
  EXPECT_EQ(ceil_div(4, 3), 2);
}

TEST(CeilDiv, RoundsNegativeNumbersUpToo) {
  EXPECT_EQ(ceil_div(-1, 3), 0);
  EXPECT_EQ(ceil_div(-3, 3), -1);
  EXPECT_EQ(ceil_div(-4, 3), -1);
}

TEST(CeilDiv, DoesNotOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(ceil_div(kMost, kMost), 1);
  EXPECT_EQ(ceil_div(kMost, 2), std::int64_t{1} << 62);
}

TEST(RoundUp, FindsTheNextMultiple) {
  EXPECT_EQ(round_up(0, 8), 0u);
  EXPECT_EQ(round_up(1, 8), 8u);
  EXPECT_EQ(round_up(8, 8), 8u);
  EXPECT_EQ(round_up(9, 6), 12u);
}

}  // namespace
}  // namespace tessera
