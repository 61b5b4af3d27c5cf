#include "tessera/trials/measure/sampler.h"

#include <chrono>

#include <gtest/gtest.h>

#include "tessera/trials/measure/calibration.h"

namespace tessera::measure {
namespace {

void spin(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(IsTight, FollowsTheSpread) {
  EXPECT_FALSE(is_tight({}, 0.1));
  EXPECT_TRUE(is_tight({1, 1, 1}, 0.001));
  EXPECT_FALSE(is_tight({1, 2, 3}, 0.1));
  EXPECT_TRUE(is_tight({1.00, 1.01, 1.02, 1.01}, 0.01));
}

TEST(Sampler, StopsEarlyForTheHopeless) {
  SamplerOptions options;
  options.incumbent_s = 1e-5;
  int calls = 0;
  const Sampled got = take_samples(
      [&] {
        ++calls;
        spin(2e-3);
      },
      {}, options);
  EXPECT_TRUE(got.censored);
  ASSERT_FALSE(got.samples_s.empty());
  EXPECT_GE(got.samples_s[0], 2e-3);
  EXPECT_LE(calls, 1 + 3 * options.max_samples);
}

TEST(Sampler, FinalTrialsAreNeverCensored) {
  SamplerOptions options;
  options.incumbent_s = 1e-5;
  options.full = true;
  const Sampled got = take_samples([] { spin(1e-3); }, {}, options);
  EXPECT_FALSE(got.censored);
  EXPECT_GE(static_cast<int>(got.samples_s.size()), options.min_samples);
}

TEST(Sampler, RepeatsShortCalls) {
  int calls = 0;
  const Sampled got = take_samples(
      [&] {
        ++calls;
        spin(1e-5);
      },
      {}, {});
  EXPECT_GE(calls, 3 * 20);
  for (const double s : got.samples_s) EXPECT_GE(s, 1e-5);
}

TEST(Sampler, ColdSamplesAreSingleCalls) {
  int calls = 0, flushes = 0;
  SamplerOptions options;
  options.max_samples = 5;
  take_samples([&] { ++calls; }, [&] { ++flushes; }, options);
  EXPECT_EQ(calls, flushes);
  EXPECT_GE(calls, 3);
}

// Of a device whose calls take `call_s`, and a launch of them 3 us.
struct FakeDevice {
  double call_s = 0;
  std::vector<int> recorded;  // calls of each graph that had to be made

  Sampled sample(const SamplerOptions& options) {
    SampledCalls calls;
    calls.on_device = true;
    calls.seconds = [this](int n) -> Result<double> {
      if (recorded.empty() || recorded.back() != n) recorded.push_back(n);
      return 3e-6 + n * call_s;
    };
    return take_samples(calls, options).value();
  }
};

TEST(Sampler, MakesFewGraphsOfADevice) {
  SamplerOptions options;
  options.sample_s = 1.5e-4;
  FakeDevice quick{.call_s = 2e-6};
  const Sampled got = quick.sample(options);
  EXPECT_EQ(quick.recorded.size(), 2u) << "one call, then as many as a sample takes";
  EXPECT_EQ(got.samples_s.size(), 3u);
  for (const double s : got.samples_s) EXPECT_NEAR(s, 2e-6, 1e-7);
}

TEST(Sampler, LongCallsOfADeviceAreSamples) {
  SamplerOptions options;
  options.sample_s = 1.5e-4;
  options.incumbent_s = 1e-5;
  FakeDevice slow{.call_s = 2e-3};
  const Sampled got = slow.sample(options);
  EXPECT_TRUE(got.censored);
  EXPECT_EQ(got.samples_s.size(), 1u);
  EXPECT_EQ(slow.recorded, std::vector<int>{1});
}

TEST(Sampler, CountsCallsOfADeviceAgainWhenTheFirstLookMisled) {
  SamplerOptions options;
  options.sample_s = 3e-4;
  int looks = 0;
  SampledCalls calls;
  calls.on_device = true;
  // Loading its code takes as long as a hundred calls.
  calls.seconds = [&](int n) -> Result<double> { return (looks++ == 0 ? 1e-4 : 0) + n * 1e-6; };
  const Sampled got = take_samples(calls, options).value();
  for (const double s : got.samples_s) EXPECT_NEAR(s, 1e-6, 1e-9);
  EXPECT_GE(got.timed_s, 3 * options.sample_s);
}

TEST(Calibration, TakesSomeMicroseconds) {
  CalibrationKernel kernel;
  const double seconds = kernel.run(5);
  EXPECT_GT(seconds, 1e-6);
  EXPECT_LT(seconds, 1e-2);
}

}  // namespace
}  // namespace tessera::measure
