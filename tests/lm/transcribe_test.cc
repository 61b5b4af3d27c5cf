#include "tessera/learn/lm/transcribe.h"

#include <gtest/gtest.h>

#include "tessera/scheduling/decide/walk.h"
#include "tests/lm/lm_case.h"

namespace tessera::lm {
namespace {

// What is drawn is legal, and a walk that takes the same answers is asked the same questions.
TEST(Transcribe, DrawsWhatAWalkAsks) {
  for (const char* target : kTargets) {
    for (const char* spec : kSpecs) {
      const space::Space space = space_of(spec, target);
      Rng rng(7);
      for (const auto& sketch : space.sketches()) {
        for (int i = 0; i < 5; ++i) {
          std::vector<Answer> answers;
          const std::vector<std::int32_t> choice = draw(*sketch, rng, &answers);
          ASSERT_TRUE(sketch->check(choice).ok());
          decide::Walk walk(*sketch);
          for (const Answer& a : answers) {
            ASSERT_FALSE(walk.done());
            EXPECT_EQ(walk.next(), static_cast<std::size_t>(a.question));
            EXPECT_EQ(walk.legal(), a.legal);
            walk.take(a.taken);
          }
          EXPECT_TRUE(walk.done());
          EXPECT_EQ(walk.choice(), choice);
          const auto again = transcribe(*sketch, choice);
          ASSERT_TRUE(again.ok());
          EXPECT_EQ(*again, answers);
        }
      }
    }
  }
}

TEST(Transcribe, RefusesWhatIsNotLegal) {
  const space::Space space = space_of("matmul:M=60,N=96,K=40");
  Rng rng(1);
  const decide::Sketch& sketch = *space.sketches()[0];
  for (int i = 0; i < 10000; ++i) {
    std::vector<std::int32_t> choice;
    for (const decide::Point& d : sketch.points())
      choice.push_back(static_cast<std::int32_t>(rng.below(std::ssize(d.values))));
    const Result<void> legal = sketch.check(choice);
    const auto answers = transcribe(sketch, choice);
    ASSERT_EQ(answers.ok(), legal.ok());
    if (legal.ok()) continue;
    EXPECT_EQ(answers.error().code, ErrorCode::kIllegalSchedule);
    EXPECT_EQ(answers.error().message, legal.error().message);
    return;
  }
  FAIL() << "nothing illegal in 10000 draws";
}

TEST(Transcribe, TheSameSeedDrawsTheSame) {
  const space::Space space = space_of(kSpecs[1]);
  const auto drawn = [&] {
    Rng rng(3);
    std::vector<Answer> answers;
    for (int i = 0; i < 20; ++i) draw(*space.sketches()[0], rng, &answers);
    return answers;
  };
  EXPECT_EQ(drawn(), drawn());
}

}  // namespace
}  // namespace tessera::lm
