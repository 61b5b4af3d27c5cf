#include "tessera/machine/runtime/timing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/support/check.h"
#include "tessera/support/clock.h"
#include "tessera/support/quantile.h"

namespace tessera::runtime {
namespace {

double time_repeated(const std::function<void()>& call, int calls) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return seconds_since(start);
}

// Longer calls fill the caches for themselves.
constexpr double kLongCall = 0.05;

struct Series {
  const Sampler* sampler = nullptr;
  int calls_per_sample = 1;
  std::vector<RawSample> raw;
  int clean = 0;        // among the samples whose successor is known
  bool warm = false;    // others ran in between: samples begin with a call that is not timed
  bool failed = false;  // it cannot be called any more

  // A call of some nanoseconds needs many doublings; the bound keeps the count in range if the
  // clock stands still.
  void calibrate(double sample_s, bool alone) {
    constexpr int kMostCalls = 1 << 28;
    time_once(1);  // the first call may allocate, page in and wake threads
    int calls = 1;
    double total_s = undisturbed(calls, sample_s);
    while (total_s < sample_s && calls < kMostCalls && !failed) {
      // Aims at the goal once the measurement is long enough to extrapolate from; doubles till
      // then.
      const double factor = total_s > sample_s / 16 ? 1.05 * sample_s / total_s : 2;
      calls = std::max(calls + 1, static_cast<int>(std::min<double>(kMostCalls, calls * factor)));
      total_s = undisturbed(calls, sample_s);
    }
    calls_per_sample = calls;
    warm = !alone && total_s < kLongCall * calls;
  }

  double time_once(int calls) {
    const std::optional<TakenSample> taken = (*sampler)(calls, false);
    failed = failed || !taken;
    return taken ? taken->sample.total_s : 0;
  }

  // Asks again before it believes that the goal is reached: another task may have held the core.
  double undisturbed(int calls, double sample_s) {
    const double total_s = time_once(calls);
    const bool doubtful = total_s >= sample_s && total_s < 10 * sample_s;
    return doubtful ? std::min(total_s, time_once(calls)) : total_s;
  }

  void take() {
    const std::optional<TakenSample> taken = (*sampler)(calls_per_sample, warm);
    failed = !taken;
    if (failed) return;
    if (!raw.empty()) settle(taken->late_wait_s);
    // A clock too coarse for the callable must not give a share of zero time.
    raw.push_back(
        {.total_s = std::max(taken->sample.total_s, 1e-9), .wait_s = taken->sample.wait_s});
  }

  void settle(double late_wait_s) {
    RawSample& last = raw.back();
    last.wait_s = std::max(last.wait_s, late_wait_s);
    clean += is_clean(last) ? 1 : 0;
  }
};

}  // namespace

// Samples without any wait that differ by more than this were disturbed by what no core shows: the
// shared cache, the memory, the clock rate.
constexpr double kMostSpread = 1.5;

bool is_clean(const RawSample& sample) { return sample.wait_s < 0.01 * sample.total_s + 30e-6; }

double Samples::percentile(double q) const {
  TESSERA_CHECK(!call_s.empty(), "percentile of no samples");
  return quantile(call_s, q);
}

Samples summarize(const std::vector<RawSample>& raw, int calls_per_sample, bool checked,
                  const TimingOptions& options) {
  Samples result;
  result.calls_per_sample = calls_per_sample;
  result.checked = checked;
  result.clean = static_cast<int>(std::ranges::count_if(raw, is_clean));
  result.dirty = static_cast<int>(raw.size()) - result.clean;
  const bool enough = result.clean >= std::max(1, options.min_samples);
  result.trusted = checked && enough;
  double worst_share = std::numeric_limits<double>::infinity();
  if (!enough && !raw.empty()) {
    std::vector<double> shares;
    shares.reserve(raw.size());
    for (const RawSample& s : raw) shares.push_back(s.wait_s / s.total_s);
    std::ranges::sort(shares);
    const auto kept = static_cast<std::size_t>(std::max(1, options.min_samples));
    worst_share = shares[std::min(kept, shares.size()) - 1];
  }
  for (const RawSample& s : raw) {
    if (enough ? is_clean(s) : s.wait_s / s.total_s <= worst_share) {
      result.call_s.push_back(s.total_s / calls_per_sample);
    }
  }
  if (result.trusted) result.trusted = result.p90_s() <= kMostSpread * result.p10_s();
  return result;
}

InterleavedTimer::InterleavedTimer(const TimingOptions& options) : options_(options) {}

int InterleavedTimer::add(Sampler sampler) {
  samplers_.push_back(std::move(sampler));
  return static_cast<int>(samplers_.size()) - 1;
}

int InterleavedTimer::add(std::function<void()> call) {
  const auto waited_s = [this] { return 1e-9 * static_cast<double>(run_queue_.elapsed_wait_ns()); };
  return add(Sampler(
      [call = std::move(call), waited_s](int calls, bool warm) -> std::optional<TakenSample> {
        TakenSample taken;
        taken.late_wait_s = waited_s();
        if (warm) {
          call();
          (void)waited_s();
        }
        taken.sample.total_s = time_repeated(call, calls);
        taken.sample.wait_s = waited_s();
        return taken;
      }));
}

std::vector<Samples> InterleavedTimer::run() {
  const Clock::time_point start = Clock::now();
  const double limit_s = options_.time_limit_s * static_cast<double>(samplers_.size());
  std::vector<Series> all(samplers_.size());
  for (std::size_t i = 0; i < samplers_.size(); ++i) {
    all[i].sampler = &samplers_[i];
    all[i].calibrate(options_.sample_s, samplers_.size() == 1);
  }

  // Whole rounds, until the last callable is content: all results cover the same stretch of time.
  const auto wants_more = [&](const Series& s) { return !s.failed && s.clean < options_.samples; };
  do {
    for (Series& series : all) {
      if (!series.failed) series.take();
    }
  } while (std::ranges::any_of(all, wants_more) && seconds_since(start) < limit_s);
  // Nothing followed the last samples, so a wait in them may not have shown yet.
  for (Series& s : all) {
    if (s.raw.size() > 1) s.raw.pop_back();
  }

  std::vector<Samples> results;
  results.reserve(all.size());
  for (const Series& s : all) {
    results.push_back(s.failed
                          ? Samples{}
                          : summarize(s.raw, s.calls_per_sample, run_queue_.available(), options_));
  }
  return results;
}

std::vector<Samples> InterleavedTimer::run_undisturbed() {
  std::vector<Samples> first = run();
  const auto disturbed = [](const Samples& s) {
    return s.checked && !s.trusted && !s.call_s.empty();
  };
  if (std::ranges::none_of(first, disturbed)) return first;
  std::vector<Samples> second = run();
  const auto least_clean = [](const std::vector<Samples>& all) {
    return std::ranges::min_element(all, {}, &Samples::clean)->clean;
  };
  return least_clean(second) > least_clean(first) ? second : first;
}

Samples time_calls(const std::function<void()>& call, const TimingOptions& options) {
  InterleavedTimer timer(options);
  timer.add(call);
  return timer.run().front();
}

}  // namespace tessera::runtime
