#include "tessera/measure/calibration.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

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

}  // namespace

CalibrationKernel::CalibrationKernel() : memory_(kFloats, 1e-3F) {}

double CalibrationKernel::run(int runs) {
  std::vector<double> times;
  for (int i = 0; i < std::max(runs, 1); ++i) {
    const auto start = std::chrono::steady_clock::now();
    sink_ = multiply_add(1e-3F) + walk(memory_);
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace tessera::measure
