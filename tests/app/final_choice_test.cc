// What is kept after the last comparison is never slower than what was there.
#include "tessera/app/tune/final_choice.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/support/rng.h"

namespace tessera::app {
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

constexpr double kLeast = 0.005;

TEST(Gain, IsWhatNoiseDoesNotExplain) {
  const runtime::Samples before = samples({10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 9.98});
  const Gain clear = gain_of(before, samples({9.0, 9.1, 8.9, 9.05, 8.95, 9.02, 8.98}));
  EXPECT_NEAR(clear.gain, 0.1, 1e-9);
  EXPECT_LT(clear.noise, 0.02);
  EXPECT_TRUE(is_sure(clear, kLeast));
  // Too little, slower, and the same gain where samples are far apart.
  EXPECT_FALSE(is_sure(gain_of(before, samples({9.97, 10.07, 9.87, 9.97})), kLeast));
  EXPECT_FALSE(is_sure(gain_of(samples({9.0, 9.0, 9.0}), before), kLeast));
  const runtime::Samples wide = samples({8.0, 9.0, 10.0, 11.0, 12.0, 9.5, 10.5});
  const Gain lucky = gain_of(wide, samples({7.0, 8.0, 9.0, 10.0, 11.0, 8.5, 9.5}));
  EXPECT_NEAR(lucky.gain, 0.1, 1e-9);
  EXPECT_FALSE(is_sure(lucky, kLeast));
  // Its fast samples are not faster.
  const Gain apart = gain_of(samples({1.0, 1.2, 1.2, 1.2}), samples({1.1, 1.1, 1.1, 1.1}));
  EXPECT_FALSE(is_sure(apart, kLeast));
}

TEST(Gain, OfSeveralComparisonsBelievesTheQuietOnes) {
  const Gain quiet{0.05, 0.01, true}, loud{-0.3, 0.6, false};
  const Gain together = combined({quiet, loud});
  EXPECT_NEAR(together.gain, 0.05, 0.001);
  EXPECT_FALSE(is_sure(together, kLeast));  // half of them show it
  EXPECT_TRUE(is_sure(combined({quiet, quiet, loud}), kLeast));
  // Each is precise, and they contradict each other.
  EXPECT_FALSE(is_sure(combined({{0.05, 0.01, true}, {-0.04, 0.01, true}}), kLeast));
  EXPECT_LT(combined({quiet, quiet}).noise, quiet.noise);
}

TEST(Gain, ThatIsNotSureIsToldInWords) {
  const auto text = [](double gain, double noise) {
    return unproved_text({.gain = gain, .noise = noise}, 0.005);
  };
  EXPECT_EQ(text(0.001, 0.1), "takes as long as before");
  EXPECT_EQ(text(-0.2, 0.05), "takes 20.0 % longer as a whole");
  EXPECT_EQ(text(-0.03, 0.05),
            "is not faster as a whole: it took 3.0 % longer, where timings vary by 5.0 %");
  EXPECT_EQ(text(0.22, 0.407),
            "seemed 22.0 % faster as a whole, where timings vary by 40.7 %: the machine was too "
            "busy to prove it");
  EXPECT_EQ(text(0.1, 0.05),
            "seemed 10.0 % faster as a whole by its typical run and not by its fast ones: that "
            "proves nothing");
}

TEST(Gain, OfTheSameIsSeldomSure) {
  Rng rng(3);
  int sure = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<Gain> gains;
    for (int pass = 0; pass < 3; ++pass) {
      std::vector<double> a, b;
      for (int k = 0; k < 9; ++k) {
        a.push_back(1 + 0.05 * rng.uniform());
        b.push_back(1 + 0.05 * rng.uniform());
      }
      gains.push_back(gain_of(samples(a), samples(b)));
    }
    sure += is_sure(combined(gains), kLeast) ? 1 : 0;
  }
  EXPECT_LT(sure, 20);
}

}  // namespace
}  // namespace tessera::app
