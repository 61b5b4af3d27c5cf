#include "tessera/app/plot/chart.h"

#include <limits>

#include <gtest/gtest.h>

#include "tests/testing/testing.h"

namespace tessera::plot {
namespace {

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(Chart, Lines) {
  const LineChart chart{.title = "Best time over trials",
                        .x = {.label = "trials", .logarithmic = true},
                        .y = {.label = "time [ms]"},
                        .series = {{.name = "random", .points = {{1, 9}, {4, 5}, {16, 4}}},
                                   {.name = "a<b>", .points = {{1, 8}, {16, 3}}, .steps = true}}};
  testing::expect_golden("plot/lines.svg", to_svg(chart));
  const std::string part = to_svg(chart, Place::kPage);
  EXPECT_EQ(part.find("<style>"), std::string::npos) << "a page has it once";
  EXPECT_EQ(part.find("<b>"), std::string::npos);
}

TEST(Chart, Rows) {
  RowChart chart{.title = "Time of kernels",
                 .x = {.label = "time [ms]"},
                 .series = {"before", "after"},
                 .rows = {{"conv+add+max", {4, 2.5}, 1.5}, {"pool", {kNone, 0.25}, {}}},
                 .mark = "roofline"};
  const std::string bars = to_svg(chart);
  testing::expect_golden("plot/rows.svg", bars);
  // The legend and three values; the one that is missing has none.
  EXPECT_EQ(count(bars, "class=\"bar"), 2u + 3);
  EXPECT_EQ(count(bars, "class=\"mark\""), 1u + 1);
  // Bars are lengths: on an axis that starts elsewhere they would lie.
  chart.rows = {{"conv+add+max", {0.92, 0.95}, 0.99}, {"pool", {kNone, 0.97}, {}}};
  chart.x.low = 0.9;
  const std::string dots = to_svg(chart);
  EXPECT_EQ(count(dots, "class=\"bar"), 0u);
  EXPECT_EQ(count(dots, "class=\"marker"), 2u + 3);
  EXPECT_NE(dots.find("(starts at 0.90)"), std::string::npos);
}

TEST(Chart, NothingToDrawIsStillAChart) {
  EXPECT_EQ(count(to_svg(LineChart{.title = "none"}), "</svg>"), 2u) << "the frame is one";
  EXPECT_EQ(count(to_svg(RowChart{.title = "none"}), "</svg>"), 1u);
  const LineChart lost{.series = {{.name = "nan", .points = {{1, kNone}, {kNone, 1}}}}};
  EXPECT_EQ(count(to_svg(lost), "<polyline"), 0u);
  EXPECT_EQ(to_svg(lost).find("nan,"), std::string::npos);
}

}  // namespace
}  // namespace tessera::plot
