#include "tessera/learn/lm/transcribe.h"

#include "tessera/support/check.h"

namespace tessera::lm {
namespace {

// One pass over the sketch that lists what is legal at every question.
class Listing : public decide::Asker {
 public:
  explicit Listing(const decide::Sketch& sketch) : sketch_(sketch) {}

  std::int32_t ask(std::size_t decision, const decide::Refusal& refusal) final {
    const decide::Point& d = sketch_.points()[decision];
    const auto count = static_cast<std::int32_t>(d.values.size());
    if (stopped() || count == 1) return d.preferred;
    Answer a{.question = static_cast<std::int32_t>(decision), .taken = 0, .legal = {}};
    a.legal.reserve(d.values.size());
    for (std::int32_t v = 0; v < count; ++v) {
      if (!refusal(v)) a.legal.push_back(v);
    }
    TESSERA_CHECK(!a.legal.empty(), "sketch {} has no legal value of {}", sketch_.name(), d.name);
    a.taken = take(a, refusal);
    answers_.push_back(std::move(a));
    return answers_.back().taken;
  }

  std::vector<Answer>& answers() { return answers_; }

 protected:
  virtual std::int32_t take(const Answer& question, const decide::Refusal& refusal) = 0;

  const decide::Sketch& sketch_;

 private:
  std::vector<Answer> answers_;
};

class Following final : public Listing {
 public:
  Following(const decide::Sketch& sketch, decide::Choice choice)
      : Listing(sketch), choice_(choice) {}

  bool stopped() const override { return !result_.ok(); }
  Result<void> result() && { return std::move(result_); }

 private:
  std::int32_t take(const Answer& question, const decide::Refusal& refusal) override {
    const std::int32_t value = choice_[static_cast<std::size_t>(question.question)];
    if (const char* reason = refusal(value)) {
      const decide::Point& d = sketch_.points()[static_cast<std::size_t>(question.question)];
      result_ =
          make_error(ErrorCode::kIllegalSchedule, "{}={}: {}", d.name, d.label(value), reason);
    }
    return value;
  }

  decide::Choice choice_;
  Result<void> result_;
};

class Drawing final : public Listing {
 public:
  Drawing(const decide::Sketch& sketch, Rng& rng) : Listing(sketch), rng_(rng) {}

 private:
  std::int32_t take(const Answer& question, const decide::Refusal&) override {
    return question.legal[static_cast<std::size_t>(rng_.below(std::ssize(question.legal)))];
  }

  Rng& rng_;
};

}  // namespace

Result<std::vector<Answer>> transcribe(const decide::Sketch& sketch, decide::Choice choice) {
  Following following(sketch, choice);
  sketch.walk(following);
  std::vector<Answer> answers = std::move(following.answers());
  TESSERA_DO(std::move(following).result());
  return answers;
}

std::vector<std::int32_t> draw(const decide::Sketch& sketch, Rng& rng,
                               std::vector<Answer>* answers) {
  std::vector<std::int32_t> choice;
  choice.reserve(sketch.points().size());
  for (const decide::Point& d : sketch.points()) choice.push_back(d.preferred);
  Drawing drawing(sketch, rng);
  sketch.walk(drawing);
  for (Answer& a : drawing.answers()) {
    choice[static_cast<std::size_t>(a.question)] = a.taken;
    answers->push_back(std::move(a));
  }
  return choice;
}

}  // namespace tessera::lm
