// Legal points at random, none twice.
#include "tessera/search/policies/policies.h"
#include "tessera/search/selection.h"

namespace tessera::search {
namespace {

class Random final : public Policy {
 public:
  Random(const space::Space& space, const PolicyOptions& options)
      : space_(space), history_(space.sketches().size()), rng_(options.seed) {}

  std::vector<space::Candidate> propose(std::size_t n) override {
    return draw_unseen(space_, n, history_, rng_);
  }
  void observe(std::span<const Observation> observations) override {
    history_.observe(observations);
  }

 private:
  const space::Space& space_;
  History history_;
  Rng rng_;
};

}  // namespace

std::unique_ptr<Policy> make_random(const space::Space& space, Scorer&,
                                    const PolicyOptions& options) {
  return std::make_unique<Random>(space, options);
}

}  // namespace tessera::search
