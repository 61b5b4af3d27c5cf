#include "tessera/app/quantize/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/support/float_format.h"

namespace tessera::app {
namespace {

constexpr double kLevels = 256;

// Parts first...end of the histogram.
struct Window {
  std::size_t first = 0, end = kHistogramParts;
};

double edge(const Observed& seen, std::size_t part) {
  return seen.low + (seen.high - seen.low) * static_cast<double>(part) / kHistogramParts;
}

Range range_of(const Observed& seen, const Window& w) {
  return {std::min(0.0, edge(seen, w.first)), std::max(0.0, edge(seen, w.end))};
}

Window without_tails(const Observed& seen) {
  double total = 0;
  for (const double n : seen.counts) total += n;
  const double cut = total * kCutShare / 2;
  Window w;
  double below = 0, above = 0;
  while (w.first + 1 < w.end && below + seen.counts[w.first] <= cut)
    below += seen.counts[w.first++];
  while (w.end > w.first + 1 && above + seen.counts[w.end - 1] <= cut)
    above += seen.counts[--w.end];
  return w;
}

// Numbers inside are rounded, those outside are moved to the nearest end.
double squared_error(const Observed& seen, const Window& w) {
  const Range range = range_of(seen, w);
  const double step = (range.high - range.low) / (kLevels - 1);
  double sum = 0;
  for (std::size_t i = 0; i < kHistogramParts; ++i) {
    if (seen.counts[i] == 0) continue;
    const double x = (edge(seen, i) + edge(seen, i + 1)) / 2;
    const double away = std::max({range.low - x, x - range.high, 0.0});
    sum += seen.counts[i] * (away > 0 ? away * away : step * step / 12);
  }
  return sum;
}

// Of what the window holds, those outside counted at its ends, from the same spread over the
// levels.
double divergence(const Observed& seen, const Window& w) {
  std::vector<double> p(seen.counts.begin() + static_cast<std::ptrdiff_t>(w.first),
                        seen.counts.begin() + static_cast<std::ptrdiff_t>(w.end));
  const std::vector<double> inside = p;
  for (std::size_t i = 0; i < w.first; ++i) p.front() += seen.counts[i];
  for (std::size_t i = w.end; i < kHistogramParts; ++i) p.back() += seen.counts[i];
  const double parts = static_cast<double>(p.size());
  double total = 0, divergence = 0, kept = 0;
  for (const double n : p) total += n;
  for (const double n : inside) kept += n;
  if (kept == 0) return std::numeric_limits<double>::infinity();
  for (double level = 0; level < kLevels; ++level) {
    const auto first = static_cast<std::size_t>(level * parts / kLevels);
    const auto end = static_cast<std::size_t>((level + 1) * parts / kLevels);
    double sum = 0, filled = 0;
    for (std::size_t i = first; i < end; ++i) {
      sum += inside[i];
      filled += p[i] > 0 ? 1 : 0;
    }
    if (filled == 0) continue;
    const double q = std::max(sum / filled / kept, 1e-12);
    for (std::size_t i = first; i < end; ++i) {
      if (p[i] > 0) divergence += p[i] / total * std::log(p[i] / total / q);
    }
  }
  return divergence;
}

// The best of windows whose ends are equally far from zero, where there are numbers.
Window best_window(const Observed& seen, double (*cost)(const Observed&, const Window&)) {
  const double largest = std::max(-seen.low, seen.high), width = seen.high - seen.low;
  constexpr int kCandidates = 128;
  Window best;
  double least = cost(seen, best);
  for (int i = kCandidates / 16; i < kCandidates; ++i) {
    const double limit = largest * i / kCandidates;
    const double first = (std::max(seen.low, -limit) - seen.low) / width * kHistogramParts;
    const double end = (std::min(seen.high, limit) - seen.low) / width * kHistogramParts;
    const Window w{static_cast<std::size_t>(first),
                   std::min(static_cast<std::size_t>(std::ceil(end)), kHistogramParts)};
    if (static_cast<double>(w.end - w.first) < kLevels) continue;
    const double c = cost(seen, w);
    if (c < least) {
      least = c;
      best = w;
    }
  }
  return best;
}

}  // namespace

Range choose_range(const Observed& seen, RangeMethod method) {
  const Range all{std::min(seen.low, 0.0), std::max(seen.high, 0.0)};
  if (method == RangeMethod::kMinMax || seen.counts.empty() || all.high == all.low) return all;
  if (method == RangeMethod::kPercentile) return range_of(seen, without_tails(seen));
  return range_of(seen,
                  best_window(seen, method == RangeMethod::kMse ? squared_error : divergence));
}

ByteScale byte_scale(const Range& range) {
  const auto scale = static_cast<float>((range.high - range.low) / (kLevels - 1));
  if (!(scale > std::numeric_limits<float>::min())) return {};
  const double zero = std::nearbyint(-range.low / scale);
  return {scale, static_cast<std::int64_t>(std::clamp(zero, 0.0, kLevels - 1))};
}

ByteScale short_float_scale(const Range& range) {
  const double most = float_format(DType::kF8E4M3).largest();
  const auto scale = static_cast<float>(std::max(-range.low, range.high) / most);
  return scale > std::numeric_limits<float>::min() ? ByteScale{scale, 0} : ByteScale{};
}

}  // namespace tessera::app
