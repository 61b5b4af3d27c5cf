#include "tessera/scheduling/decide/walk.h"

#include <algorithm>

namespace tessera::decide {

// Gives the answers taken so far and stops at the first question without one.
class Walk::Replay final : public Asker {
 public:
  explicit Replay(Walk& walk) : walk_(walk) {}

  std::int32_t ask(std::size_t point, const Refusal& refusal) override {
    const Point& d = walk_.sketch_->points()[point];
    if (stopped_ || d.values.size() == 1) return d.preferred;
    if (asked_ < walk_.taken_) {
      ++asked_;
      return walk_.choice_[point];
    }
    stopped_ = true;
    walk_.next_ = point;
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(d.values.size()); ++v) {
      if (!refusal(v)) walk_.legal_.push_back(v);
    }
    return d.preferred;
  }
  bool stopped() const override { return stopped_; }

 private:
  Walk& walk_;
  std::size_t asked_ = 0;
  bool stopped_ = false;
};

Walk::Walk(const Sketch& sketch) : sketch_(&sketch) {
  choice_.reserve(sketch.points().size());
  for (const Point& d : sketch.points()) choice_.push_back(d.preferred);
  advance();
}

void Walk::take(std::int32_t value) {
  TESSERA_CHECK(std::binary_search(legal_.begin(), legal_.end(), value), "{} is not legal here",
                value);
  choice_[next_] = value;
  ++taken_;
  advance();
}

void Walk::advance() {
  legal_.clear();
  Replay replay(*this);
  sketch_->walk(replay);
  done_ = !replay.stopped();
  TESSERA_CHECK(done_ || !legal_.empty(), "sketch {} has no legal value of {}", sketch_->name(),
                point().name);
}

std::optional<Candidate> Enumeration::next() {
  for (;;) {
    if (branches_.empty()) {
      const auto& sketches = space_.sketches();
      if (++sketch_ >= static_cast<std::int32_t>(sketches.size())) {
        sketch_ = static_cast<std::int32_t>(sketches.size());
        return std::nullopt;
      }
      branches_.push_back({Walk(*sketches[static_cast<std::size_t>(sketch_)])});
    }
    Branch& last = branches_.back();
    if (last.walk.done()) {
      Candidate out{.sketch = sketch_, .choice = last.walk.choice()};
      branches_.pop_back();
      return out;
    }
    if (last.taken == last.walk.legal().size()) {
      branches_.pop_back();
      continue;
    }
    Walk on = last.walk;
    on.take(last.walk.legal()[last.taken++]);
    branches_.push_back({std::move(on)});
  }
}

}  // namespace tessera::decide
