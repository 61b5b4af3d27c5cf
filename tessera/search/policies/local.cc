// Mutations of the fastest measured: what can be had without a model.
#include "tessera/search/breeding.h"
#include "tessera/search/policies/policies.h"

namespace tessera::search {
namespace {

constexpr double kRandomShare = 0.15;

class Local final : public DrawingPolicy {
 public:
  using DrawingPolicy::DrawingPolicy;

  std::vector<decide::Candidate> propose(std::size_t n) override {
    std::vector<decide::Candidate> out;
    if (n == 0) return out;
    if (options_.with_preferred) add_preferred(space_, history_, &out);
    // Before anything ran, half of the batch looks beyond the neighbourhood of the preferred one.
    const double share = history_.fastest().empty() ? 0.5 : kRandomShare;
    for (decide::Candidate& c : breed_measured(space_, n - out.size(), share, history_, rng_)) {
      out.push_back(std::move(c));
    }
    return out;
  }
};

}  // namespace

std::unique_ptr<Policy> make_local(const decide::Space& space, Scorer&,
                                   const PolicyOptions& options) {
  return std::make_unique<Local>(space, options);
}

}  // namespace tessera::search
