#include "tessera/trials/measure/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/machine/runtime/run_queue.h"
#include "tessera/machine/runtime/timing.h"
#include "tessera/support/clock.h"
#include "tessera/support/quantile.h"

namespace tessera::measure {
namespace {

// A candidate near the incumbent is worth more samples than one that has lost anyway.
constexpr double kPrecisionNear = 0.01, kPrecisionFar = 0.04;
constexpr double kNear = 1.1;
// So far beyond the incumbent that a single sample decides.
constexpr double kHopeless = 3;
// Of a single call on a device: what its launch takes at most, and a call at least (an H200).
constexpr double kLaunchSeconds = 4e-6, kShortestCall = 1e-6;
constexpr double kMostMore = 100;  // calls than the first look said

class Sampling {
 public:
  Sampling(const SampledCalls& sampled, const SamplerOptions& options)
      : sampled_(sampled), options_(options) {}

  Result<Sampled> run() {
    TESSERA_DO(choose_calls());
    run_queue_.elapsed_wait_ns();
    const int most = 3 * std::max(1, options_.max_samples);
    while (!done() && static_cast<int>(raw_.size()) < most) TESSERA_DO(take());
    return result();
  }

 private:
  Result<double> timed(int calls) {
    TESSERA_TRY(const double seconds, sampled_.seconds(calls));
    return std::max(seconds, 1e-9);
  }

  // A graph of calls costs more to make than to run, and the clock of a device is exact: one look
  // at a call says how many, near enough.
  Result<void> choose_device_calls() {
    TESSERA_TRY(const double once_s, timed(1));
    if (once_s >= options_.sample_s) {
      keep(once_s, 0);
      return {};
    }
    const double call_s = std::max(once_s - kLaunchSeconds, kShortestCall);
    calls_ = static_cast<int>(std::ceil(options_.sample_s / call_s));
    TESSERA_TRY(const double total_s, timed(calls_));
    if (total_s > options_.sample_s / 2) {
      keep(total_s, 0);
    } else {
      calls_ =
          static_cast<int>(std::ceil(calls_ * std::min(options_.sample_s / total_s, kMostMore)));
    }
    return {};
  }

  Result<void> choose_calls() {
    if (sampled_.one_call) return {};
    if (sampled_.on_device) return choose_device_calls();
    TESSERA_TRY(const double once_s, timed(1));
    // A call this slow is a sample; asking again would double the cost of a loser.
    if (once_s >= options_.sample_s) return {};
    TESSERA_TRY(const double again_s, timed(1));
    const double call_s = std::min(once_s, again_s);
    constexpr double kMostCalls = 1 << 20;
    calls_ = static_cast<int>(std::clamp(std::ceil(options_.sample_s / call_s), 1.0, kMostCalls));
    if (calls_ < 16) return {};
    // The clock itself and the first touch weigh in a single short call: corrects the count.
    TESSERA_TRY(const double total_s, timed(calls_));
    calls_ = static_cast<int>(
        std::clamp(std::ceil(calls_ * options_.sample_s / total_s), 1.0, kMostCalls));
    return {};
  }

  Result<void> take() {
    TESSERA_TRY(const double total_s, timed(calls_));
    const double waited_s = 1e-9 * static_cast<double>(run_queue_.elapsed_wait_ns());
    const double wait_s = sampled_.on_device ? 0 : waited_s;
    // The kernel may charge a wait only in the sample that follows it.
    if (!raw_.empty()) raw_.back().wait_s = std::max(raw_.back().wait_s, wait_s);
    keep(total_s, wait_s);
    return {};
  }

  void keep(double total_s, double wait_s) {
    raw_.push_back({.total_s = total_s, .wait_s = wait_s});
    timed_s_ += total_s;
    wait_s_ += wait_s;
  }

  std::vector<double> clean() const {
    std::vector<double> out;
    for (const runtime::RawSample& s : raw_) {
      if (runtime::is_clean(s)) out.push_back(s.total_s / calls_);
    }
    return out;
  }

  bool loses(const std::vector<double>& samples) {
    if (options_.full || options_.incumbent_s <= 0 || samples.empty()) return false;
    const double best = *std::ranges::min_element(samples);
    const bool enough = static_cast<int>(samples.size()) >= options_.min_samples;
    const double factor =
        enough ? options_.loser_factor : std::max(kHopeless, options_.loser_factor);
    return best > factor * options_.incumbent_s;
  }

  bool done() {
    if (raw_.empty()) return false;
    const std::vector<double> samples = clean();
    const int n = static_cast<int>(samples.size());
    if (loses(samples)) return censored_ = true;
    if (n >= options_.max_samples || timed_s_ >= options_.limit_s) return true;
    if (options_.full || n < options_.min_samples) return false;
    const bool near =
        options_.incumbent_s <= 0 || quantile(samples, 0.5) < kNear * options_.incumbent_s;
    return is_tight(samples, near ? kPrecisionNear : kPrecisionFar);
  }

  Sampled result() const {
    const int wanted = censored_ ? 1 : std::max(1, options_.min_samples);
    runtime::TimingOptions timing;
    timing.min_samples = wanted;
    const runtime::Samples summary =
        runtime::summarize(raw_, calls_, run_queue_.available(), timing);
    // Limits may end the sampling of a long call with few samples, all of them clean.
    const bool all_clean = summary.dirty == 0;
    return {.samples_s = summary.call_s,
            .censored = censored_,
            .disturbed = !all_clean && summary.clean < wanted,
            .wait_s = wait_s_,
            .timed_s = timed_s_};
  }

  const SampledCalls& sampled_;
  const SamplerOptions& options_;
  runtime::RunQueueClock run_queue_;
  int calls_ = 1;
  std::vector<runtime::RawSample> raw_;
  double timed_s_ = 0, wait_s_ = 0;
  bool censored_ = false;
};

}  // namespace

SamplerOptions sampler_options(const Trial& trial, const MeasureOptions& options) {
  SamplerOptions out;
  out.min_samples = options.min_samples;
  out.max_samples = options.max_samples;
  out.sample_s = options.sample_s;
  out.limit_s = options.trial_limit_s;
  out.incumbent_s = trial.incumbent_s;
  out.loser_factor = options.loser_factor;
  out.full = trial.final;
  return out;
}

bool is_tight(const std::vector<double>& samples_s, double precision) {
  if (samples_s.empty()) return false;
  const double spread = quantile(samples_s, 0.75) - quantile(samples_s, 0.25);
  // The notch of a box plot: about a 95 % interval of the median.
  const double half_width = 1.58 * spread / std::sqrt(static_cast<double>(samples_s.size()));
  return half_width <= precision * quantile(samples_s, 0.5);
}

Result<Sampled> take_samples(const SampledCalls& calls, const SamplerOptions& options) {
  return Sampling(calls, options).run();
}

Sampled take_samples(const std::function<void()>& call, const std::function<void()>& before_call,
                     const SamplerOptions& options) {
  SampledCalls sampled;
  sampled.one_call = static_cast<bool>(before_call);
  sampled.seconds = [&](int calls) -> Result<double> {
    if (before_call) before_call();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    return seconds_since(start);
  };
  return take_samples(sampled, options).value();
}

}  // namespace tessera::measure
