// Charts in a real browser, where it is installed: every text lies within its image.
#include "tests/testing/browser.h"

#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/app/plot/chart.h"

namespace tessera::plot {
namespace {

LineChart many_curves() {
  LineChart chart{.title = "Policies",
                  .x = {.label = "trials per task", .logarithmic = true},
                  .y = {.label = "best recorded / best found", .low = 0.7, .high = 1}};
  for (int i = 0; i < 13; ++i) {
    Series s{.name = fmt::format("annealing+acquisition=ei+features=curve regression {}", i)};
    for (int n = 1; n <= 192; ++n) {
      s.points.push_back({static_cast<double>(n), 1 - 0.3 / (n + i)});
    }
    chart.series.push_back(s);
  }
  return chart;
}

RowChart long_labels() {
  return {.title = "Kernels",
          .x = {.label = "time of all uses [ms], as measured side by side at the end"},
          .series = {"before tuning", "after tuning"},
          .rows = {{"WWWWMMMM conv_winograd+add+max 1x1024x1024x1024 i8 µµµ …", {123456.7, 1}, 2.0},
                   {"pool", {0.01, 0.001}, 0.0001}},
          .mark = "what the machine could do at best (roofline)",
          .digits = 4};
}

TEST(Browser, NoTextIsCutOff) {
  const std::string narrow = to_svg(LineChart{.title = "narrow",
                                              .x = {.label = std::string(90, 'W')},
                                              .y = {.label = std::string(60, 'm')},
                                              .series = {{std::string(80, 'W'), {{0, 1}, {1, 2}}}},
                                              .width = 200,
                                              .height = 120},
                                    Place::kPage);
  const std::string page =
      fmt::format("<!doctype html><meta charset=\"utf-8\"><style>{}</style>{}{}{}{}", style(),
                  to_svg(many_curves(), Place::kPage), to_svg(long_labels(), Place::kPage), narrow,
                  testing::cut_off_script());
  const std::optional<std::string> dom = testing::browse(page);
  if (!dom) GTEST_SKIP() << "chromium is not installed";
  EXPECT_EQ(testing::cut_off_texts(*dom), "charts 3, cut off 0");
}

}  // namespace
}  // namespace tessera::plot
