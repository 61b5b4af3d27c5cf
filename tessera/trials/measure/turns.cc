#include "tessera/trials/measure/turns.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tessera::measure {
namespace {

std::vector<std::size_t> shuffled(std::size_t n, Rng& rng) {
  std::vector<std::size_t> out(n);
  std::iota(out.begin(), out.end(), std::size_t{0});
  for (std::size_t i = n; i > 1; --i)
    std::swap(out[i - 1], out[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
  return out;
}

}  // namespace

std::vector<std::vector<std::size_t>> draw_round(const std::vector<Turns>& places, Rng& rng) {
  std::size_t most = 0;
  for (const Turns& t : places) most = std::max(most, t.candidates.size());
  std::vector<std::vector<std::size_t>> out(most + 1,
                                            std::vector<std::size_t>(places.size(), kOwnKernel));
  const std::vector<std::size_t> shared = shuffled(out.size(), rng);
  for (std::size_t p = 0; p < places.size(); ++p) {
    const std::vector<std::size_t> runs = places[p].together ? shared : shuffled(out.size(), rng);
    for (std::size_t i = 0; i < places[p].candidates.size(); ++i)
      out[runs[i]][p] = places[p].candidates[i];
  }
  return out;
}

std::vector<double> kept_seconds(const std::vector<TimedCall>& calls, std::size_t least) {
  std::vector<std::size_t> order(calls.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (calls[a].clean != calls[b].clean) return calls[a].clean;
    return calls[a].share_waited < calls[b].share_waited;
  });
  const auto clean = static_cast<std::size_t>(
      std::count_if(calls.begin(), calls.end(), [](const TimedCall& c) { return c.clean; }));
  order.resize(std::min(order.size(), std::max(clean, least)));
  std::sort(order.begin(), order.end());
  std::vector<double> out;
  out.reserve(order.size());
  for (const std::size_t i : order) out.push_back(calls[i].seconds);
  return out;
}

}  // namespace tessera::measure
