#include "tessera/support/quantile.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Quantile, LiesBetweenNeighbours) {
  const std::vector<double> values = {4, 1, 3, 2, 0};
  EXPECT_EQ(quantile(values, 0), 0);
  EXPECT_EQ(quantile(values, 0.25), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 3.6);
  EXPECT_EQ(quantile(values, 1), 4);
}

TEST(Quantile, StaysWithinTheValues) {
  EXPECT_EQ(quantile({1, 2}, -1), 1);
  EXPECT_EQ(quantile({1, 2}, 2), 2);
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({7}, 0.9), 7);
}

TEST(Quantile, TakesSortedValuesAsTheyAre) {
  const std::vector<double> values = {1, 2, 4};
  EXPECT_EQ(quantile_of_sorted(values, 0.75), 3);
  EXPECT_EQ(quantile_of_sorted({}, 0.75), 0);
}

TEST(Median, IsTheMiddleOrTheMeanOfTwo) {
  EXPECT_EQ(median({5, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 8}), 3);
  EXPECT_EQ(median({}), 0);
}

TEST(Median, TheUpperOneIsAValue) {
  EXPECT_EQ(upper_median({5, 1, 2}), 2);
  EXPECT_EQ(upper_median({4, 1, 2, 8}), 4);
  EXPECT_EQ(upper_median({}), 0);
}

}  // namespace
}  // namespace tessera
