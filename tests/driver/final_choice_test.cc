// What is kept after the last comparison is never slower than what was there.
#include "tessera/driver/tune/final_choice.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/support/rng.h"

namespace tessera::driver {
namespace {

runtime::Samples samples(std::vector<double> call_s) {
  runtime::Samples out;
  out.call_s = std::move(call_s);
  return out;
}

TEST(FinalChoice, KeepsDefaultSchedulesWhereTunedOnesAreSlowerTogether) {
  // The rules' plan tuned, the same with default schedules, the plan that was found.
  const FinalChoice c = choose_final({samples({16.3}), samples({14.4}), samples({15.9})}, 2);
  EXPECT_EQ(c.kept, 1u);
  EXPECT_DOUBLE_EQ(c.before_s, 14.4);
  EXPECT_DOUBLE_EQ(c.after_s, 14.4);
}

TEST(FinalChoice, KeepsWhatIsFasterThanAllBefore) {
  const FinalChoice c =
      choose_final({samples({9.4}), samples({9.0}), samples({8.2}), samples({8.1})}, 2);
  EXPECT_EQ(c.kept, 3u);
  EXPECT_DOUBLE_EQ(c.before_s, 9.0);
  EXPECT_DOUBLE_EQ(c.after_s, 8.1);
  EXPECT_TRUE(c.agreed);
}

TEST(FinalChoice, DoesNotBelieveMediansAlone) {
  // Its median is faster, its fast samples are not.
  const FinalChoice c = choose_final({samples({1.0, 1.2, 1.2}), samples({1.1, 1.1, 1.1})}, 1);
  EXPECT_FALSE(c.agreed);
  EXPECT_EQ(c.kept, 0u);
}

TEST(FinalChoice, IsNeverSlowerThanAnythingBefore) {
  Rng rng(7);
  for (int round = 0; round < 500; ++round) {
    const auto n = static_cast<std::size_t>(rng.between(1, 5));
    const auto before = static_cast<std::size_t>(rng.between(1, static_cast<std::int64_t>(n)));
    std::vector<runtime::Samples> models;
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> call_s;
      call_s.reserve(7);
      for (int k = 0; k < 7; ++k) call_s.push_back(1 + rng.uniform());
      models.push_back(samples(call_s));
    }
    const FinalChoice c = choose_final(models, before);
    for (std::size_t i = 0; i < before; ++i) {
      EXPECT_LE(models[c.kept].median_s(), models[i].median_s());
      EXPECT_LE(c.before_s, models[i].median_s());
    }
    EXPECT_LE(c.after_s, c.before_s);
    EXPECT_DOUBLE_EQ(c.after_s, models[c.kept].median_s());
  }
}

}  // namespace
}  // namespace tessera::driver
