#include "tessera/learn/lm/adapter.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tessera/learn/lm/generate.h"
#include "tessera/learn/lm/transcribe.h"
#include "tessera/learn/lm/uniform_reader.h"
#include "tests/lm/lm_case.h"

namespace tessera::lm {
namespace {

const Generator::Claim kAny = [](const decide::Candidate&) { return true; };

// As if the product of all lengths alone decided.
double speed_of(const Subject& subject, const std::vector<Answer>& answers) {
  double out = 0;
  for (const Answer& a : answers) {
    const Question& q = subject.questions[static_cast<std::size_t>(a.question)];
    out += static_cast<double>(q.values[static_cast<std::size_t>(a.taken)][2]);
  }
  return out;
}

double mean_speed(const space::Space& space, Generator& generator, std::uint64_t seed) {
  Rng rng(seed);
  const auto written = generator.sample(60, rng, kAny);
  EXPECT_TRUE(written.ok());
  double sum = 0;
  for (const Generated& g : *written) {
    const auto answers = transcribe(*space.sketches()[static_cast<std::size_t>(g.candidate.sketch)],
                                    g.candidate.choice);
    sum += speed_of(generator.subject(g.candidate.sketch), *answers);
  }
  return sum / static_cast<double>(written->size());
}

void teach(const space::Space& space, Generator& generator, const std::string& task,
           Adapter* adapter) {
  Rng rng(7);
  for (int i = 0; i < 40; ++i) {
    std::vector<Answer> answers;
    draw(*space.sketches()[0], rng, &answers);
    adapter->add(task, generator.subject(0), answers, speed_of(generator.subject(0), answers));
  }
  adapter->fit();
}

TEST(Adapter, WritesMoreOfWhatWasFast) {
  const space::Space space = space_of(kSpecs[0]);
  UniformReader uniform;
  Generator plain(space, uniform, {});
  AdaptedReader adapted(std::make_shared<UniformReader>(), std::make_shared<Adapter>());
  Adapter& adapter = *adapted.adapter();
  Generator generator(space, adapted, {});
  // Nothing learnt: nothing changes.
  EXPECT_EQ(mean_speed(space, plain, 3), mean_speed(space, generator, 3));
  adapter.fit();
  EXPECT_EQ(adapter.bonus(generator.subject(0).questions.front(), 0), 0.0F);
  teach(space, plain, "a task", &adapter);
  EXPECT_GT(mean_speed(space, generator, 3), mean_speed(space, plain, 3) + 0.1);
}

TEST(Adapter, HelpsATaskThatItHasNotSeen) {
  const space::Space seen = space_of("matmul:M=64,N=128,K=32"), other = space_of(kSpecs[0]);
  UniformReader uniform;
  Generator of_seen(seen, uniform, {}), plain(other, uniform, {});
  AdaptedReader adapted(std::make_shared<UniformReader>(), std::make_shared<Adapter>());
  teach(seen, of_seen, "a task", adapted.adapter());
  Generator generator(other, adapted, {});
  EXPECT_GT(mean_speed(other, generator, 5), mean_speed(other, plain, 5));
}

TEST(Adapter, KeepsChancesAndForgetsTheOldest) {
  const space::Space space = space_of(kSpecs[1]);
  UniformReader uniform;
  Generator plain(space, uniform, {});
  AdaptedReader adapted(std::make_shared<UniformReader>(), std::make_shared<Adapter>());
  Adapter& adapter = *adapted.adapter();
  teach(space, plain, "a task", &adapter);
  const Subject& subject = plain.subject(0);
  ASSERT_TRUE(adapted.begin(subject, 1, 1).ok());
  std::vector<std::int32_t> legal;
  for (std::size_t v = 0; v < subject.questions[0].values.size(); ++v)
    legal.push_back(static_cast<std::int32_t>(v));
  const Step step{.row = 0, .question = 0, .previous = -1, .legal = legal};
  const auto chances = adapted.step({&step, 1});
  ASSERT_TRUE(chances.ok());
  double sum = 0;
  for (const float c : *chances) sum += std::exp(static_cast<double>(c));
  EXPECT_NEAR(sum, 1, 1e-4);
  EXPECT_EQ(adapter.sentences(), 40u);
  for (int i = 0; i < 12; ++i) teach(space, plain, "another", &adapter);
  EXPECT_EQ(adapter.sentences(), 384u);
}

}  // namespace
}  // namespace tessera::lm
