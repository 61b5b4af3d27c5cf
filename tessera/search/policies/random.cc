// Legal points at random, none twice.
#include "tessera/search/policies/policies.h"
#include "tessera/search/selection.h"

namespace tessera::search {
namespace {

class Random final : public DrawingPolicy {
 public:
  using DrawingPolicy::DrawingPolicy;

  std::vector<decide::Candidate> propose(std::size_t n) override {
    return draw_unseen(space_, n, history_, rng_);
  }
};

}  // namespace

std::unique_ptr<Policy> make_random(const decide::Space& space, Scorer&,
                                    const PolicyOptions& options) {
  return std::make_unique<Random>(space, options);
}

}  // namespace tessera::search
