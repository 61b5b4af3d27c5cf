#include "tessera/trials/measure/calibration.h"

#include <algorithm>
#include <cstddef>

#include "tessera/support/clock.h"

namespace tessera::measure {
namespace {

constexpr int kRounds = 4000;
constexpr std::size_t kFloats = std::size_t{1} << 16;  // 256 KiB: beyond every first-level cache

// Twelve independent chains hide the latencies and fit the registers of every machine so far.
float multiply_add(float x) {
  using Lanes [[gnu::vector_size(16)]] = float;
  constexpr int kChains = 12;
  Lanes acc[kChains];
  for (int i = 0; i < kChains; ++i) acc[i] = Lanes{} + static_cast<float>(i);
  const Lanes a = Lanes{} + (1 - x), b = Lanes{} + x;
  for (int r = 0; r < kRounds; ++r) {
    for (Lanes& v : acc) v = v * a + b;
  }
  Lanes sum{};
  for (const Lanes& v : acc) sum += v;
  return sum[0] + sum[3];
}

float walk(const std::vector<float>& memory) {
  using Lanes [[gnu::vector_size(16)]] = float;
  Lanes sum[4] = {};
  for (std::size_t i = 0; i + 16 <= memory.size(); i += 16) {
    for (std::size_t k = 0; k < 4; ++k) {
      Lanes v;
      __builtin_memcpy(&v, memory.data() + i + 4 * k, sizeof(v));
      sum[k] += v;
    }
  }
  return sum[0][0] + sum[1][1] + sum[2][2] + sum[3][3];
}

// Of the last-level cache: more takes longer and says no more.
constexpr std::int64_t kLeastProbe = 4 << 20, kMostProbe = 16 << 20;
// Walks that are remembered, and from how many on they say what is usual: the fastest quarter.
constexpr std::size_t kWalks = 64, kWalksToJudge = 8;
constexpr double kSlowWalk = 1.4;

}  // namespace

CalibrationKernel::CalibrationKernel() : memory_(kFloats, 1e-3F) {}

double CalibrationKernel::run(int runs) {
  std::vector<double> times;
  for (int i = 0; i < std::max(runs, 1); ++i) {
    const auto start = Clock::now();
    sink_ = multiply_add(1e-3F) + walk(memory_);
    times.push_back(seconds_since(start));
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

MemoryProbe::MemoryProbe(std::int64_t cache_bytes)
    : memory_(static_cast<std::size_t>(std::clamp(cache_bytes, kLeastProbe, kMostProbe)) /
                  sizeof(float),
              1e-3F) {}

double MemoryProbe::run() {
  double best_s = 0;
  for (int i = 0; i < 2; ++i) {
    const auto start = Clock::now();
    sink_ = walk(memory_);
    const double took_s = seconds_since(start);
    best_s = i == 0 ? took_s : std::min(best_s, took_s);
  }
  return best_s;
}

bool MemoryWatch::is_disturbed(double probe_s) {
  if (probe_s <= 0) return false;
  recent_.push_back(probe_s);
  if (recent_.size() > kWalks) recent_.pop_front();
  if (recent_.size() < kWalksToJudge) return false;
  std::vector<double> sorted(recent_.begin(), recent_.end());
  std::ranges::sort(sorted);
  return probe_s > kSlowWalk * sorted[sorted.size() / 4];
}

}  // namespace tessera::measure
