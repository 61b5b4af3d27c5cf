// Every candidate in order, for spaces that are small enough to be measured whole.
#include "tessera/scheduling/decide/walk.h"
#include "tessera/search/history.h"
#include "tessera/search/policies/policies.h"

namespace tessera::search {
namespace {

class Grid final : public Policy {
 public:
  explicit Grid(const decide::Space& space) : all_(space), history_(space.sketches().size()) {}

  std::vector<decide::Candidate> propose(std::size_t n) override {
    std::vector<decide::Candidate> out;
    while (out.size() < n) {
      std::optional<decide::Candidate> c = all_.next();
      if (!c) break;
      if (history_.claim(*c)) out.push_back(*std::move(c));
    }
    return out;
  }
  void observe(std::span<const Observation> observations) override {
    history_.observe(observations);
  }

 private:
  decide::Enumeration all_;
  History history_;
};

}  // namespace

std::unique_ptr<Policy> make_grid(const decide::Space& space, Scorer&, const PolicyOptions&) {
  return std::make_unique<Grid>(space);
}

}  // namespace tessera::search
