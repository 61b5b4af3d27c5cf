#include "tessera/app/tune/replay_order.h"

#include <algorithm>
#include <numeric>

namespace tessera::app {

std::vector<std::vector<std::size_t>> replay_order(const std::vector<double>& seconds,
                                                   std::size_t batch) {
  const std::size_t n = seconds.size();
  std::vector<std::size_t> timed;
  for (std::size_t i = 0; i < n; ++i) {
    if (seconds[i] > 0) timed.push_back(i);
  }
  const std::size_t fastest = std::min(timed.size(), batch / 2);
  std::partial_sort(timed.begin(), timed.begin() + static_cast<std::ptrdiff_t>(fastest),
                    timed.end(), [&](std::size_t a, std::size_t b) {
                      return seconds[a] != seconds[b] ? seconds[a] < seconds[b] : a < b;
                    });
  std::vector<bool> is_first(n, false);
  for (std::size_t i = 0; i < fastest; ++i) is_first[timed[i]] = true;
  std::vector<std::vector<std::size_t>> out;
  std::vector<std::size_t> part(timed.begin(),
                                timed.begin() + static_cast<std::ptrdiff_t>(fastest));
  const auto close = [&] {
    if (part.empty()) return;
    std::sort(part.begin(), part.end());
    out.push_back(std::move(part));
    part.clear();
  };
  for (std::size_t i = n; i-- > 0;) {
    if (is_first[i]) continue;
    if (part.size() == batch) close();
    part.push_back(i);
  }
  close();
  return out;
}

}  // namespace tessera::app
