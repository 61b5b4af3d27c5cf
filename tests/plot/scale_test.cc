#include "tessera/app/plot/scale.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace tessera::plot {
namespace {

std::vector<std::string> texts(const Scale& scale) {
  std::vector<std::string> out;
  for (const Tick& tick : scale.ticks()) out.push_back(tick.text);
  return out;
}

using Texts = std::vector<std::string>;

TEST(Scale, StartsAtZeroUnlessTold) {
  const Scale scale({.label = "time [ms]"}, 3, 9.3, 0, 100, 5);
  EXPECT_EQ(texts(scale), (Texts{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(scale.label(), "time [ms]");
  EXPECT_DOUBLE_EQ(scale.at(5), 50);
  EXPECT_DOUBLE_EQ(scale.at(20), 200);
}

TEST(Scale, SaysWhereItStarts) {
  const Scale score({.label = "score", .low = 0.7, .high = 1}, 0.8, 0.99, 0, 100, 6);
  EXPECT_EQ(texts(score), (Texts{"0.70", "0.75", "0.80", "0.85", "0.90", "0.95", "1.00"}));
  EXPECT_EQ(score.label(), "score (starts at 0.70)");
  const Scale change({.label = "change [%]"}, -4, 9, 0, 100, 4);
  EXPECT_EQ(change.label(), "change [%] (starts at -5)");
}

TEST(Scale, LogarithmicHasBothEnds) {
  const Scale trials({.label = "trials", .logarithmic = true}, 1, 192, 0, 100, 8);
  EXPECT_EQ(texts(trials), (Texts{"1", "2", "4", "8", "16", "32", "64", "192"}));
  EXPECT_EQ(trials.label(), "trials (logarithmic, starts at 1)");
  EXPECT_FALSE(trials.shows(0));
  const Scale wide({.label = "bytes", .logarithmic = true}, 1, 1e6, 0, 100, 8);
  EXPECT_EQ(texts(wide), (Texts{"1", "10", "100", "1000", "1e+04", "1e+05", "1e+06"}));
}

TEST(Scale, SurvivesOddData) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool logarithmic : {false, true}) {
    for (const auto& [least, most] :
         {std::pair{nan, nan}, {0.0, 0.0}, {5.0, 5.0}, {1e-12, 1e-12}, {1e300, 1e300}}) {
      const Scale scale({.label = "x", .logarithmic = logarithmic}, least, most, 0, 100, 6);
      EXPECT_GE(scale.ticks().size(), 2u) << least;
      EXPECT_LE(scale.ticks().size(), 20u) << least;
      EXPECT_TRUE(std::isfinite(scale.at(1))) << least;
    }
  }
}

}  // namespace
}  // namespace tessera::plot
