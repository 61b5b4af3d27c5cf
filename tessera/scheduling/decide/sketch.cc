#include "tessera/scheduling/decide/sketch.h"

namespace tessera::decide {
namespace {

class Checker final : public Asker {
 public:
  Checker(const Sketch& sketch, Choice choice) : sketch_(sketch), choice_(choice) {}

  std::int32_t ask(std::size_t point, const Refusal& refusal) override {
    const std::int32_t value = choice_[point];
    if (stopped()) return value;
    if (const char* reason = refusal(value)) {
      const Point& d = sketch_.points()[point];
      result_ =
          make_error(ErrorCode::kIllegalSchedule, "{}={}: {}", d.name, d.label(value), reason);
    }
    return value;
  }
  bool stopped() const override { return !result_.ok(); }
  Result<void> take() && { return std::move(result_); }

 private:
  const Sketch& sketch_;
  Choice choice_;
  Result<void> result_;
};

class Settler final : public Asker {
 public:
  explicit Settler(Choice choice) : choice_(choice), asked_(choice.size(), false) {}

  std::int32_t ask(std::size_t point, const Refusal&) override {
    asked_[point] = true;
    return choice_[point];
  }
  bool asked(std::size_t point) const { return asked_[point]; }

 private:
  Choice choice_;
  std::vector<bool> asked_;
};

}  // namespace

Result<void> Sketch::check(Choice choice) const {
  Checker checker(*this, choice);
  walk(checker);
  return std::move(checker).take();
}

void Sketch::settle(std::span<std::int32_t> choice) const {
  Settler settler(choice);
  walk(settler);
  for (std::size_t d = 0; d < choice.size(); ++d) {
    if (!settler.asked(d)) choice[d] = points_[d].preferred;
  }
}

FreeSketch::FreeSketch(std::string name, std::vector<Point> points) {
  name_ = std::move(name);
  points_ = std::move(points);
}

void FreeSketch::walk(Asker& asker) const {
  for (std::size_t p = 0; p < points_.size() && !asker.stopped(); ++p)
    asker.ask(p, [](std::int32_t) -> const char* { return nullptr; });
}

}  // namespace tessera::decide
