// Every point in order, for spaces that are small enough to be measured whole.
#include <algorithm>

#include "tessera/search/policies/policies.h"
#include "tessera/search/selection.h"

namespace tessera::search {
namespace {

// Points looked at in one call: where nearly all are illegal the grid gives way to samples.
constexpr std::int64_t kPointsPerCall = 1 << 21;

class Grid final : public Policy {
 public:
  Grid(const space::Space& space, const PolicyOptions& options)
      : space_(space),
        history_(space.sketches().size()),
        rng_(options.seed),
        size_(static_cast<std::int64_t>(std::min(space.size(), 0x1p62))) {}

  std::vector<space::Candidate> propose(std::size_t n) override {
    std::vector<space::Candidate> out;
    const std::int64_t end = next_ + std::min(kPointsPerCall, size_ - next_);
    for (; next_ < end && out.size() < n; ++next_) {
      space::Candidate c = settled_at(space_, next_);
      if (history_.seen(c) || !space_.check(c).ok()) continue;
      history_.claim(c);
      out.push_back(std::move(c));
    }
    if (out.size() < n && next_ < size_) {
      for (space::Candidate& c : draw_unseen(space_, n - out.size(), history_, rng_)) {
        out.push_back(std::move(c));
      }
    }
    return out;
  }
  void observe(std::span<const Observation> observations) override {
    history_.observe(observations);
  }

 private:
  const space::Space& space_;
  History history_;
  Rng rng_;
  std::int64_t size_, next_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_grid(const space::Space& space, Scorer&,
                                  const PolicyOptions& options) {
  return std::make_unique<Grid>(space, options);
}

}  // namespace tessera::search
