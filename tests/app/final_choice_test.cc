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
  out.trusted = true;
  return out;
}

constexpr double kLeast = 0.005;

// Models whose samples are around `seconds`, compared anew each time.
class Models {
 public:
  Models(std::vector<double> seconds, double noise, std::uint64_t seed)
      : seconds_(std::move(seconds)), noise_(noise), rng_(seed) {}

  FinalChoice choose(std::size_t before) {
    std::vector<runtime::Samples> all;
    for (const double s : seconds_) all.push_back(drawn(s));
    return *choose_final(all, before, kLeast,
                         [&](std::size_t a, std::size_t b) -> Result<Comparison> {
                           ++comparisons;
                           Comparison out{drawn(seconds_[a]), drawn(seconds_[b]), {}};
                           out.gain = gain_of(out.before, out.after);
                           return out;
                         });
  }

  int comparisons = 0;

 private:
  runtime::Samples drawn(double seconds) {
    std::vector<double> out;
    for (int k = 0; k < 9; ++k) out.push_back(seconds * (1 + noise_ * (rng_.uniform() - 0.5)));
    return samples(std::move(out));
  }

  std::vector<double> seconds_;
  double noise_;
  Rng rng_;
};

TEST(FinalChoice, KeepsDefaultSchedulesWhereTunedOnesAreSlowerTogether) {
  // The rules' plan tuned, the same with default schedules, the plan that was found.
  const FinalChoice c = Models({16.3, 14.4, 15.9}, 0.01, 1).choose(2);
  EXPECT_EQ(c.kept, 1u);
  EXPECT_NEAR(c.before_s, 14.4, 0.1);
  EXPECT_DOUBLE_EQ(c.after_s, c.before_s);
}

TEST(FinalChoice, KeepsWhatIsFasterThanAllBefore) {
  Models models({9.4, 9.0, 8.2, 7.9}, 0.01, 2);
  const FinalChoice c = models.choose(2);
  EXPECT_EQ(c.kept, 3u);
  EXPECT_EQ(models.comparisons, 2) << "one that decides, one that tells";
  EXPECT_NEAR(c.before_s, 9.0, 0.1);
  EXPECT_NEAR(c.after_s, 7.9, 0.1);
  EXPECT_TRUE(c.trusted);
}

TEST(FinalChoice, ComparesNothingWhereNothingWasFound) {
  Models models({9.4, 9.0}, 0.01, 3);
  EXPECT_EQ(models.choose(2).kept, 1u);
  EXPECT_EQ(models.comparisons, 0);
}

TEST(FinalChoice, TellsTheTimesThatDidNotChoose) {
  // By the samples and the comparison that decide it gains a fifth, by the one that tells a tenth,
  // or nothing.
  for (const double told_s : {9.0, 10.5}) {
    int comparisons = 0;
    const auto compare = [&](std::size_t, std::size_t) -> Result<Comparison> {
      Comparison out{samples({10, 10, 10}), samples({8, 8, 8}), {}};
      if (++comparisons == 2) out.after = samples({told_s, told_s, told_s});
      out.after.trusted = comparisons == 1;
      out.gain = gain_of(out.before, out.after);
      return out;
    };
    const FinalChoice c =
        choose_final({samples({10, 10, 10}), samples({8, 8, 8})}, 1, kLeast, compare).value();
    EXPECT_EQ(comparisons, 2);
    EXPECT_EQ(c.kept, told_s < 10 ? 1u : 0u);
    EXPECT_DOUBLE_EQ(c.before_s, 10);
    EXPECT_DOUBLE_EQ(c.after_s, std::min(told_s, 10.0));
    EXPECT_EQ(c.trusted, told_s > 10);
  }
}

TEST(FinalChoice, AComparisonThatFailsIsAnError) {
  const auto fails = [](std::size_t, std::size_t) -> Result<Comparison> {
    return make_error(ErrorCode::kRunFailed, "the device is gone");
  };
  const auto c = choose_final({samples({10}), samples({8})}, 1, kLeast, fails);
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(c.error().message, "the device is gone");
}

TEST(FinalChoice, IsNeverSlowerThanWhatWasThere) {
  Rng rng(7);
  for (int round = 0; round < 500; ++round) {
    const auto n = static_cast<std::size_t>(rng.between(1, 5));
    const auto before = static_cast<std::size_t>(rng.between(1, static_cast<std::int64_t>(n)));
    std::vector<double> seconds;
    for (std::size_t i = 0; i < n; ++i) seconds.push_back(1 + rng.uniform());
    const FinalChoice c = Models(seconds, 0.5, rng.next()).choose(before);
    EXPECT_LE(c.after_s, c.before_s);
    EXPECT_LT(c.kept, n);
  }
}

// Many models whose plans are all as fast as the rules': the fastest of several seems faster, and
// is neither kept nor told.
TEST(FinalChoice, TellsNoLuck) {
  double told = 0;
  int kept = 0;
  constexpr int kTunings = 2000;
  for (int i = 0; i < kTunings; ++i) {
    const FinalChoice c = Models({1, 1, 1, 1, 1, 1}, 0.05, static_cast<std::uint64_t>(i)).choose(1);
    told += c.before_s / c.after_s - 1;
    kept += c.kept > 0 ? 1 : 0;
  }
  EXPECT_LT(kept, kTunings / 50);
  EXPECT_LT(told / kTunings, 1e-4);
}

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
