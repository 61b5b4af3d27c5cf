#include "tessera/trials/measure/calibration.h"

#include <gtest/gtest.h>

namespace tessera::measure {
namespace {

TEST(MemoryWatch, MarksWalksThatAreSlowerThanUsual) {
  MemoryWatch watch;
  EXPECT_FALSE(watch.is_disturbed(0)) << "not taken";
  EXPECT_FALSE(watch.is_disturbed(9e-3)) << "nothing is usual yet";
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(watch.is_disturbed(1e-3 + 1e-5 * (i % 5))) << i;
  EXPECT_FALSE(watch.is_disturbed(1.3e-3));
  EXPECT_TRUE(watch.is_disturbed(1.6e-3));
  EXPECT_TRUE(watch.is_disturbed(1.8e-3));
  EXPECT_FALSE(watch.is_disturbed(1e-3));
}

TEST(MemoryWatch, TakesWhatLastsAsUsual) {
  MemoryWatch watch;
  for (int i = 0; i < 20; ++i) watch.is_disturbed(1e-3);
  int marked = 0;
  for (int i = 0; i < 100; ++i) marked += watch.is_disturbed(2e-3) ? 1 : 0;
  EXPECT_GT(marked, 20);
  EXPECT_LT(marked, 64) << "another speed of the memory, for good";
  EXPECT_FALSE(watch.is_disturbed(2e-3));
}

TEST(MemoryProbe, TakesTime) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{8} << 20, std::int64_t{1} << 34}) {
    MemoryProbe probe(bytes);
    EXPECT_GT(probe.run(), 0);
  }
}

}  // namespace
}  // namespace tessera::measure
