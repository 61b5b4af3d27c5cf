#include "tessera/search/pinned_space.h"

#include <algorithm>

namespace tessera::search {
namespace {

class PinnedSketch final : public space::Sketch {
 public:
  PinnedSketch(const space::Sketch& base, space::DecisionKind kind) : base_(base) {
    name_ = base.name();
    decisions_ = base.decisions();
    for (std::size_t d = 0; d < decisions_.size(); ++d) {
      space::Decision& decision = decisions_[d];
      if (decision.kind != kind) continue;
      const auto preferred = static_cast<std::size_t>(decision.preferred);
      decision.values = {decision.values[preferred]};
      if (!decision.labels.empty()) decision.labels = {decision.labels[preferred]};
      decision.preferred = 0;
      pinned_.push_back(d);
    }
  }

  Result<void> check(std::span<const std::int32_t> choice) const override {
    return base_.check(of_base(choice));
  }
  void settle(std::span<std::int32_t> choice) const override {
    std::vector<std::int32_t> settled = of_base(choice);
    base_.settle(settled);
    for (const std::size_t d : pinned_) settled[d] = 0;
    std::copy(settled.begin(), settled.end(), choice.begin());
  }
  Result<schedule::Schedule> write(std::span<const std::int32_t> choice) const override {
    return base_.write(of_base(choice));
  }

 private:
  std::vector<std::int32_t> of_base(std::span<const std::int32_t> choice) const {
    std::vector<std::int32_t> out(choice.begin(), choice.end());
    for (const std::size_t d : pinned_) out[d] = base_.decisions()[d].preferred;
    return out;
  }

  const space::Sketch& base_;
  std::vector<std::size_t> pinned_;
};

}  // namespace

space::Space with_preferred(const space::Space& space, space::DecisionKind kind) {
  std::vector<std::unique_ptr<space::Sketch>> sketches;
  for (const std::unique_ptr<space::Sketch>& s : space.sketches()) {
    sketches.push_back(std::make_unique<PinnedSketch>(*s, kind));
  }
  return {space.dag(), space.target(), std::move(sketches)};
}

}  // namespace tessera::search
