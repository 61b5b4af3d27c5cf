#include "tessera/learn/lm/generate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>

#include <gtest/gtest.h>

#include "tessera/learn/lm/guided_reader.h"
#include "tessera/learn/lm/uniform_reader.h"
#include "tests/lm/lm_case.h"

namespace tessera::lm {
namespace {

const Generator::Claim kAny = [](const decide::Candidate&) { return true; };

// Likes values by their place in the list, and counts what it is asked.
class SlopedReader final : public Reader {
 public:
  Result<void> begin(const Subject& subject, int rows, float) override {
    subject_ = &subject;
    previous_.assign(static_cast<std::size_t>(rows), -1);
    return {};
  }
  Result<std::vector<float>> step(std::span<const Step> steps) override {
    std::vector<float> out;
    std::set<std::int32_t> rows;
    for (const Step& s : steps) {
      EXPECT_TRUE(rows.insert(s.row).second);
      EXPECT_LT(static_cast<std::size_t>(s.question), subject_->questions.size());
      double sum = 0;
      for (const std::int32_t v : s.legal) sum += std::exp(-0.5 * v);
      for (const std::int32_t v : s.legal)
        out.push_back(static_cast<float>(-0.5 * v - std::log(sum)));
      ++asked;
    }
    return out;
  }
  Result<void> copy_rows(std::span<const std::int32_t> sources) override {
    EXPECT_EQ(sources.size(), previous_.size());
    return {};
  }
  int asked = 0;

 private:
  const Subject* subject_ = nullptr;
  std::vector<std::int32_t> previous_;
};

class FailingReader final : public Reader {
 public:
  Result<void> begin(const Subject&, int, float) override { return {}; }
  Result<std::vector<float>> step(std::span<const Step>) override {
    return make_error(ErrorCode::kRunFailed, "no answer");
  }
  Result<void> copy_rows(std::span<const std::int32_t>) override { return {}; }
};

// On machines of all kinds, so many of each space; gives the number of sentences.
std::size_t check_sentences(std::size_t of_each) {
  std::size_t all = 0;
  for (const char* target : kTargets) {
    for (const char* spec : kSpecs) {
      const space::Space space = space_of(spec, target);
      UniformReader reader;
      Generator generator(space, reader, {});
      Rng rng(5);
      const auto made = generator.sample(of_each, rng, kAny);
      EXPECT_TRUE(made.ok()) << made.error().message;
      EXPECT_EQ(generator.thrown_away(), 0u);
      std::unordered_set<decide::Candidate, decide::CandidateHash> distinct;
      for (const Generated& g : *made) {
        EXPECT_TRUE(space.check(g.candidate).ok()) << space.to_text(g.candidate);
        EXPECT_TRUE(distinct.insert(g.candidate).second);
        EXPECT_LE(g.log_prob, 0);
      }
      all += made->size();
    }
  }
  return all;
}

// By construction: tens of thousands of sentences, none refused. A million every night.
TEST(Generate, EverySentenceIsALegalCandidate) { EXPECT_GT(check_sentences(1500), 10000u); }
TEST(Generate, DISABLED_AMillionSentencesAreLegal) { EXPECT_GT(check_sentences(80000), 1000000u); }

// Of quality 1 it likes values by their place, of unknown quality all alike.
class Judging final : public Reader {
 public:
  Result<void> begin(const Subject&, int, float quality) override {
    slope_ = quality < 0 ? 0 : -0.5F;
    return {};
  }
  Result<std::vector<float>> step(std::span<const Step> steps) override {
    std::vector<float> out;
    for (const Step& s : steps) {
      for (const std::int32_t v : s.legal) out.push_back(slope_ * static_cast<float>(v) - 3);
    }
    return out;
  }
  Result<void> copy_rows(std::span<const std::int32_t>) override { return {}; }

 private:
  float slope_ = 0;
};

TEST(Guided, EvidenceIsWeightedBesideTheLikelihood) {
  GuidedReader reader(std::make_unique<Judging>(), std::make_unique<Judging>(), 2);
  ASSERT_TRUE(reader.begin({}, 1, 1).ok());
  const std::vector<std::int32_t> legal = {0, 2};
  const Step step{.legal = legal};
  EXPECT_EQ(reader.step({&step, 1}).value(), (std::vector<float>{-3, -3 - 1 - 2 * 1}));
  EXPECT_TRUE(reader.copy_rows({}).ok());
}

TEST(Generate, ChancesOfCandidatesAreThoseTheyWereWrittenWith) {
  const space::Space space = space_of(kSpecs[0]);
  Judging reader;
  Generator generator(space, reader, {.rows = 7});
  Rng rng(3);
  const auto made = generator.sample(40, rng, kAny).value();
  std::vector<decide::Candidate> candidates;
  candidates.reserve(made.size());
  for (const Generated& g : made) candidates.push_back(g.candidate);
  const std::vector<double> again = generator.chances_of(candidates).value();
  ASSERT_EQ(again.size(), made.size());
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_DOUBLE_EQ(again[i], made[i].log_prob);
  FailingReader failing;
  EXPECT_FALSE(Generator(space, failing, {}).chances_of(candidates).ok());
}

TEST(Generate, WithoutConstraintsSentencesAreThrownAway) {
  const space::Space space = space_of(kSpecs[0]);
  UniformReader reader;
  Generator generator(space, reader, {.constrained = false});
  Rng rng(1);
  const auto made = generator.sample(500, rng, kAny);
  ASSERT_TRUE(made.ok());
  for (const Generated& g : *made) EXPECT_TRUE(space.check(g.candidate).ok());
  EXPECT_GT(generator.thrown_away(), 0u);
  EXPECT_GE(generator.begun(), made->size() + generator.thrown_away());
}

TEST(Generate, TheSameSeedGivesTheSame) {
  const space::Space space = space_of(kSpecs[0]);
  const auto texts = [&](std::uint64_t seed) {
    UniformReader reader;
    Generator generator(space, reader, {});
    Rng rng(seed);
    std::string out;
    const std::vector<Generated> made = generator.sample(50, rng, kAny).value();
    for (const Generated& g : made) out += space.to_text(g.candidate) + "\n";
    return out;
  };
  EXPECT_EQ(texts(1), texts(1));
  EXPECT_NE(texts(1), texts(2));
}

TEST(Generate, SmallSpacesEnd) {
  const space::Space space = space_of("softmax:R=1,C=2");
  UniformReader reader;
  Generator generator(space, reader, {});
  Rng rng(1);
  const auto made = generator.sample(100000, rng, kAny);
  ASSERT_TRUE(made.ok());
  EXPECT_GT(made->size(), 0u);
  EXPECT_LE(static_cast<double>(made->size()), space.size());
}

TEST(Generate, WhatIsNotWantedIsLeftOut) {
  const space::Space space = space_of(kSpecs[0]);
  UniformReader reader;
  Generator generator(space, reader, {});
  Rng rng(1);
  const auto first = generator.sample(20, rng, [](const auto& c) { return c.sketch == 0; });
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->size(), 20u);
  for (const Generated& g : *first) EXPECT_EQ(g.candidate.sketch, 0);
  const auto none = generator.sample(5, rng, [](const auto&) { return false; });
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

// Temperature 0 takes the likeliest value everywhere, and so does the first beam of width 1.
TEST(Generate, ColdDrawsAndBeamsAgree) {
  const space::Space space = space_of(kSpecs[0]);
  SlopedReader reader;
  Generator generator(space, reader, {.temperature = 0});
  Rng rng(1);
  const std::vector<Generated> one = generator.sample(1, rng, kAny).value();
  const Generated& cold = one.at(0);
  EXPECT_EQ(cold.candidate.sketch, 0);
  const std::vector<Generated> beams = generator.beams(100, 1).value();
  ASSERT_EQ(beams.size(), space.sketches().size());
  const auto same = std::find_if(beams.begin(), beams.end(),
                                 [&](const Generated& g) { return g.candidate == cold.candidate; });
  ASSERT_NE(same, beams.end());
  EXPECT_NEAR(same->log_prob, cold.log_prob, 1e-4);
}

TEST(Generate, WiderBeamsFindLikelierSentences) {
  const space::Space space = space_of(kSpecs[0]);
  SlopedReader reader;
  Generator generator(space, reader, {});
  const std::vector<Generated> narrow = generator.beams(8, 1).value();
  const std::vector<Generated> wide = generator.beams(8, 32).value();
  ASSERT_EQ(wide.size(), 8u);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_TRUE(space.check(wide[i].candidate).ok());
    EXPECT_LE(wide[i].log_prob, i > 0 ? wide[i - 1].log_prob : 0);
  }
  EXPECT_GE(wide[0].log_prob, narrow[0].log_prob - 1e-6);
  std::set<std::string> texts;
  for (const Generated& g : wide) texts.insert(space.to_text(g.candidate));
  EXPECT_EQ(texts.size(), wide.size());
}

TEST(Generate, ErrorsOfTheModelAreGivenOn) {
  const space::Space space = space_of(kSpecs[0]);
  FailingReader reader;
  Generator generator(space, reader, {});
  Rng rng(1);
  EXPECT_EQ(generator.sample(1, rng, kAny).error().code, ErrorCode::kRunFailed);
  EXPECT_EQ(generator.beams(1, 4).error().code, ErrorCode::kRunFailed);
}

TEST(Generate, DrawsFollowChancesTemperatureAndTopP) {
  const std::vector<float> chances = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const auto counts = [&](double temperature, double top_p) {
    Rng rng(9);
    std::vector<int> out(3);
    for (int i = 0; i < 10000; ++i) ++out[draw_value(chances, temperature, top_p, rng)];
    return out;
  };
  const std::vector<int> plain = counts(1, 1);
  EXPECT_NEAR(plain[0], 5000, 250);
  EXPECT_NEAR(plain[2], 2000, 250);
  EXPECT_EQ(counts(0, 1), (std::vector<int>{10000, 0, 0}));
  EXPECT_GT(counts(0.5, 1)[0], plain[0] + 500);
  const std::vector<int> top = counts(1, 0.7);
  EXPECT_EQ(top[2], 0);
  EXPECT_NEAR(top[1], 3750, 250);
}

}  // namespace
}  // namespace tessera::lm
