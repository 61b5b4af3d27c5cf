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

  // What is pinned is legal whatever was decided before: threads are never wanted too few.
  void walk(space::Asker& asker) const override {
    class Pinned final : public space::Asker {
     public:
      Pinned(const PinnedSketch& sketch, space::Asker& asker) : sketch_(sketch), asker_(asker) {}
      std::int32_t ask(std::size_t d, const space::Refusal& refusal) override {
        const auto& pinned = sketch_.pinned_;
        if (!std::binary_search(pinned.begin(), pinned.end(), d)) return asker_.ask(d, refusal);
        return sketch_.base_.decisions()[d].preferred;
      }
      bool stopped() const override { return asker_.stopped(); }

     private:
      const PinnedSketch& sketch_;
      space::Asker& asker_;
    } pinned(*this, asker);
    base_.walk(pinned);
  }
  Result<schedule::Schedule> write(space::Choice choice) const override {
    return base_.write(of_base(choice));
  }

 private:
  std::vector<std::int32_t> of_base(space::Choice choice) const {
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
