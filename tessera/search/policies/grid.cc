// Every candidate in order, for spaces that are small enough to be measured whole.
#include "tessera/scheduling/space/walk.h"
#include "tessera/search/history.h"
#include "tessera/search/policies/policies.h"

namespace tessera::search {
namespace {

class Grid final : public Policy {
 public:
  explicit Grid(const space::Space& space) : all_(space), history_(space.sketches().size()) {}

  std::vector<space::Candidate> propose(std::size_t n) override {
    std::vector<space::Candidate> out;
    while (out.size() < n) {
      std::optional<space::Candidate> c = all_.next();
      if (!c) break;
      if (history_.claim(*c)) out.push_back(*std::move(c));
    }
    return out;
  }
  void observe(std::span<const Observation> observations) override {
    history_.observe(observations);
  }

 private:
  space::Enumeration all_;
  History history_;
};

}  // namespace

std::unique_ptr<Policy> make_grid(const space::Space& space, Scorer&, const PolicyOptions&) {
  return std::make_unique<Grid>(space);
}

}  // namespace tessera::search
