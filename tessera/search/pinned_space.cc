#include "tessera/search/pinned_space.h"

#include <algorithm>

namespace tessera::search {
namespace {

class PinnedSketch final : public space::Sketch {
 public:
  PinnedSketch(const space::Sketch& base, decide::PointKind kind) : base_(base) {
    name_ = base.name();
    points_ = base.points();
    for (std::size_t d = 0; d < points_.size(); ++d) {
      decide::Point& point = points_[d];
      if (point.kind != kind) continue;
      const auto preferred = static_cast<std::size_t>(point.preferred);
      point.values = {point.values[preferred]};
      if (!point.labels.empty()) point.labels = {point.labels[preferred]};
      point.preferred = 0;
      pinned_.push_back(d);
    }
  }

  // What is pinned is legal whatever was decided before: threads are never wanted too few.
  void walk(decide::Asker& asker) const override {
    class Pinned final : public decide::Asker {
     public:
      Pinned(const PinnedSketch& sketch, decide::Asker& asker) : sketch_(sketch), asker_(asker) {}
      std::int32_t ask(std::size_t d, const decide::Refusal& refusal) override {
        const auto& pinned = sketch_.pinned_;
        if (!std::binary_search(pinned.begin(), pinned.end(), d)) return asker_.ask(d, refusal);
        return sketch_.base_.points()[d].preferred;
      }
      bool stopped() const override { return asker_.stopped(); }

     private:
      const PinnedSketch& sketch_;
      decide::Asker& asker_;
    } pinned(*this, asker);
    base_.walk(pinned);
  }
  Result<schedule::Schedule> write(decide::Choice choice) const override {
    return base_.write(of_base(choice));
  }

 private:
  std::vector<std::int32_t> of_base(decide::Choice choice) const {
    std::vector<std::int32_t> out(choice.begin(), choice.end());
    for (const std::size_t d : pinned_) out[d] = base_.points()[d].preferred;
    return out;
  }

  const space::Sketch& base_;
  std::vector<std::size_t> pinned_;
};

}  // namespace

space::Space with_preferred(const space::Space& space, decide::PointKind kind) {
  std::vector<std::unique_ptr<space::Sketch>> sketches;
  for (std::size_t i = 0; i < space.sketches().size(); ++i) {
    sketches.push_back(std::make_unique<PinnedSketch>(space.sketch(i), kind));
  }
  return {space.dag(), space.target(), std::move(sketches)};
}

}  // namespace tessera::search
