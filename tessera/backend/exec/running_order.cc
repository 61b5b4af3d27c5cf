#include "tessera/backend/exec/running_order.h"

#include <algorithm>
#include <map>

namespace tessera::exec {
namespace {

struct Past {
  std::size_t step;
  Touch touch;
};

}  // namespace

RunningOrder::RunningOrder(const std::vector<std::vector<Touch>>& steps)
    : words_((steps.size() + 63) / 64), earlier_(steps.size() * words_), after_(steps.size()) {
  std::map<std::size_t, std::vector<Past>> past;  // by memory
  for (std::size_t step = 0; step < steps.size(); ++step) {
    std::vector<std::size_t> found;
    for (const Touch& t : steps[step]) {
      for (const Past& p : past[t.memory]) {
        const bool together = p.touch.begin < t.end && t.begin < p.touch.end;
        if (together && (t.writes || p.touch.writes)) found.push_back(p.step);
      }
    }
    for (const Touch& t : steps[step]) past[t.memory].push_back({step, t});
    // Later ones first: what they come after is known by then.
    std::sort(found.rbegin(), found.rend());
    std::uint64_t* mine = &earlier_[step * words_];
    for (const std::size_t other : found) {
      if (other == step || before(other, step)) continue;
      after_[step].push_back(other);
      for (std::size_t w = 0; w < words_; ++w) mine[w] |= earlier_[other * words_ + w];
      mine[other / 64] |= std::uint64_t{1} << (other % 64);
    }
    std::reverse(after_[step].begin(), after_[step].end());
  }
}

}  // namespace tessera::exec
