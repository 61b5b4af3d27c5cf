#include "tessera/scheduling/decide/recorded.h"

#include <algorithm>

namespace tessera::decide {
namespace {

using Recorded = std::vector<std::int32_t>;

class Filter final : public Asker {
 public:
  Filter(const std::vector<Recorded>& choices, Asker& asker) : asker_(asker) {
    for (const Recorded& c : choices) left_.push_back(&c);
  }

  std::int32_t ask(std::size_t point, const Refusal& refusal) override {
    const auto refused = [&](std::int32_t value) -> const char* {
      const bool known = std::any_of(left_.begin(), left_.end(),
                                     [&](const Recorded* c) { return (*c)[point] == value; });
      return known ? refusal(value) : "not recorded";
    };
    const std::int32_t taken = asker_.ask(point, refused);
    std::erase_if(left_, [&](const Recorded* c) { return (*c)[point] != taken; });
    return taken;
  }
  bool stopped() const override { return asker_.stopped(); }

 private:
  Asker& asker_;
  std::vector<const Recorded*> left_;
};

}  // namespace

void RecordedChoices::walk(const Sketch& sketch, Asker& asker) const {
  Filter filter(choices_, asker);
  sketch.walk(filter);
}

RecordedSketch::RecordedSketch(std::unique_ptr<const Sketch> whole, RecordedChoices choices)
    : whole_(std::move(whole)), choices_(std::move(choices)) {
  name_ = whole_->name();
  points_ = whole_->points();
}

}  // namespace tessera::decide
