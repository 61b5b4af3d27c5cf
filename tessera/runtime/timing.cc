#include "tessera/runtime/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "tessera/runtime/run_queue.h"
#include "tessera/support/check.h"

namespace tessera::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double time_repeated(const std::function<void()>& call, int calls) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return seconds_since(start);
}

struct Series {
  const std::function<void()>* call = nullptr;
  int calls_per_sample = 1;
  std::vector<RawSample> raw;
  int clean = 0;  // among the samples whose successor is known

  // A call of some nanoseconds needs many doublings; the bound keeps the count in range if the
  // clock stands still.
  void calibrate(double sample_s) {
    constexpr int kMostCalls = 1 << 28;
    (*call)();  // the first call may allocate, page in and wake threads
    int calls = 1;
    double total_s = undisturbed(calls, sample_s);
    while (total_s < sample_s && calls < kMostCalls) {
      // Aims at the goal once the measurement is long enough to extrapolate from; doubles till
      // then.
      const double factor = total_s > sample_s / 16 ? 1.05 * sample_s / total_s : 2;
      calls = std::max(calls + 1, static_cast<int>(std::min<double>(kMostCalls, calls * factor)));
      total_s = undisturbed(calls, sample_s);
    }
    calls_per_sample = calls;
  }

  // Asks again before it believes that the goal is reached: another task may have held the core.
  double undisturbed(int calls, double sample_s) const {
    const double total_s = time_repeated(*call, calls);
    const bool doubtful = total_s >= sample_s && total_s < 10 * sample_s;
    return doubtful ? std::min(total_s, time_repeated(*call, calls)) : total_s;
  }
};

}  // namespace

bool is_clean(const RawSample& sample) { return sample.wait_s < 0.01 * sample.total_s + 30e-6; }

double Samples::percentile(double q) const {
  TESSERA_CHECK(!call_s.empty(), "percentile of no samples");
  std::vector<double> sorted = call_s;
  std::ranges::sort(sorted);
  const double at = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return std::lerp(sorted[low], sorted[high], at - static_cast<double>(low));
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
  return result;
}

InterleavedTimer::InterleavedTimer(const TimingOptions& options) : options_(options) {}

int InterleavedTimer::add(std::function<void()> call) {
  calls_.push_back(std::move(call));
  return static_cast<int>(calls_.size()) - 1;
}

std::vector<Samples> InterleavedTimer::run() {
  const Clock::time_point start = Clock::now();
  const double limit_s = options_.time_limit_s * static_cast<double>(calls_.size());
  std::vector<Series> all(calls_.size());
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    all[i].call = &calls_[i];
    all[i].calibrate(options_.sample_s);
  }

  RunQueueClock run_queue;
  Series* previous = nullptr;  // its newest sample still awaits the wait of the sample that follows
  const auto take = [&](Series& series) {
    if (options_.pause_s > 0 && all.size() > 1) {
      std::this_thread::sleep_for(std::chrono::duration<double>(options_.pause_s));
    }
    if (series.calls_per_sample > 1 && all.size() > 1) (*series.call)();
    const double total_s = time_repeated(*series.call, series.calls_per_sample);
    const double wait_s = 1e-9 * static_cast<double>(run_queue.elapsed_wait_ns());
    if (previous != nullptr) {
      RawSample& last = previous->raw.back();
      last.wait_s = std::max(last.wait_s, wait_s);
      previous->clean += is_clean(last) ? 1 : 0;
    }
    // A clock too coarse for the callable must not give a share of zero time.
    series.raw.push_back({.total_s = std::max(total_s, 1e-9), .wait_s = wait_s});
    previous = &series;
  };

  // Whole rounds, until the last callable is content: all results cover the same stretch of time.
  const auto wants_more = [&](const Series& s) { return s.clean < options_.samples; };
  do {
    for (Series& series : all) take(series);
  } while (std::ranges::any_of(all, wants_more) && seconds_since(start) < limit_s);
  // Nothing followed the very last sample, so a wait in it may not have shown yet.
  if (previous != nullptr && previous->raw.size() > 1) previous->raw.pop_back();

  std::vector<Samples> results;
  results.reserve(all.size());
  for (const Series& s : all) {
    results.push_back(summarize(s.raw, s.calls_per_sample, run_queue.available(), options_));
  }
  return results;
}

Samples time_calls(const std::function<void()>& call, const TimingOptions& options) {
  InterleavedTimer timer(options);
  timer.add(call);
  return timer.run().front();
}

}  // namespace tessera::runtime
