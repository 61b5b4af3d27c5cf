#include "tessera/learn/lm/corpus.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "tests/lm/lm_case.h"

namespace tessera::lm {
namespace {

std::string test_path() {
  return testing::TempDir() + "/corpus_" +
         testing::UnitTest::GetInstance()->current_test_info()->name() + ".sentences";
}

struct Content {
  std::vector<Subject> subjects;
  std::vector<Sentence> sentences;
};

Content read_all(const std::string& path) {
  ShardReader reader = ShardReader::open(path).value();
  Content out;
  for (Sentence s; reader.next(&s).value();) out.sentences.push_back(s);
  out.subjects = reader.subjects();
  std::filesystem::remove(path);
  return out;
}

Content drawn(const space::Space& space, std::size_t count, std::uint64_t seed,
              const Judge& judge = {}) {
  const std::string path = test_path();
  ShardWriter writer = ShardWriter::create(path).value();
  Rng rng(seed);
  EXPECT_EQ(write_drawn(space, count, rng, judge, &writer).value(), count);
  EXPECT_TRUE(writer.flush().ok());
  return read_all(path);
}

TEST(Corpus, DrawsDistinctCandidatesOfEverySketch) {
  const space::Space space = space_of(kSpecs[0]);
  const Content c = drawn(space, 500, 1);
  EXPECT_EQ(c.sentences.size(), 500u);
  EXPECT_EQ(c.subjects.size(), space.sketches().size());
  std::set<std::pair<std::int32_t, std::vector<std::int32_t>>> distinct;
  for (const Sentence& s : c.sentences) {
    EXPECT_EQ(s.quality, kUnknownQuality);
    std::vector<std::int32_t> taken;
    for (const Answer& a : s.answers) taken.push_back(a.question), taken.push_back(a.taken);
    distinct.emplace(s.subject, taken);
  }
  EXPECT_EQ(distinct.size(), 500u);
  EXPECT_EQ(drawn(space, 500, 1).sentences, c.sentences);
  EXPECT_NE(drawn(space, 500, 2).sentences, c.sentences);
}

TEST(Corpus, AJudgeGivesQualities) {
  const space::Space space = space_of(kSpecs[0]);
  const auto first = [](const space::Space&, std::span<const decide::Candidate> candidates) {
    std::vector<float> out;
    for (const decide::Candidate& c : candidates) out.push_back(c.sketch == 0 ? 1.0f : 0.0f);
    return out;
  };
  const Content c = drawn(space, 200, 1, first);
  EXPECT_EQ(c.sentences.size(), 400u);  // and which sketch
  for (const Sentence& s : c.sentences) {
    const Subject& subject = c.subjects[static_cast<std::size_t>(s.subject)];
    const bool good = subject.sketch.empty() ? s.answers[0].taken == 0
                                             : subject.sketch == space.sketches()[0]->name();
    EXPECT_EQ(good, s.quality > 0.5f);
  }
  const auto silent = [](const space::Space&, std::span<const decide::Candidate>) {
    return std::vector<float>();
  };
  for (const Sentence& s : drawn(space, 20, 1, silent).sentences)
    EXPECT_EQ(s.quality, kUnknownQuality);
}

TEST(Corpus, RecordsTellTheirQuality) {
  const space::Space space = space_of(kSpecs[0], "neoverse-v1", 1);
  dataset::Dataset data;
  data.machines.push_back({target::to_text(target::find_target("neoverse-v1").value()), 1});
  data.tasks.push_back({"k", "matmul", "tessera", te::to_text(space.dag()), 1, 1});
  data.tasks.push_back({"f", "foreign", "ansor", "", 1, 1});
  Rng rng(1);
  for (int i = 0; i < 5; ++i) {
    dataset::Example e;
    e.candidate = space.to_text(space.sample(rng));
    e.seconds = i == 4 ? 0 : static_cast<float>(1 + i);  // the last failed
    data.examples.push_back(e);
  }
  data.examples.push_back(data.examples[0]);
  data.examples.back().candidate = "old: x=1";
  data.examples.back().seconds = 9;
  data.examples.push_back(data.examples[0]);
  data.examples.back().task = 1;

  const std::string path = test_path();
  ShardWriter writer = ShardWriter::create(path).value();
  const auto result = write_recorded(data, {}, {}, &writer);
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_TRUE(writer.flush().ok());
  EXPECT_EQ(result->sentences, 5u);
  EXPECT_EQ(result->tasks, 1u);
  EXPECT_EQ(result->unreadable, 2u);
  const Content c = read_all(path);
  ASSERT_EQ(c.sentences.size(), 10u);
  const float wanted[] = {1, 0.8f, 0.6f, 0.4f, 0};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(c.sentences[2 * i].quality, wanted[i], 1e-3);
    EXPECT_NEAR(c.sentences[2 * i + 1].quality, wanted[i], 1e-3);
    EXPECT_EQ(c.subjects[static_cast<std::size_t>(c.sentences[2 * i].subject)].sketch, "");
  }

  // Only what is wanted.
  ShardWriter again = ShardWriter::create(path).value();
  const std::vector<bool> some = {true, false, false, true, false, false, false};
  EXPECT_EQ(write_recorded(data, some, {}, &again)->sentences, 2u);

  // The last answer first, about names.
  ShardWriter other = ShardWriter::create(path).value();
  ASSERT_TRUE(write_recorded(data, {}, {}, &other, {.opaque = true, .reversed = true}).ok());
  ASSERT_TRUE(other.flush().ok());
  Content changed = read_all(path);
  ASSERT_EQ(changed.sentences.size(), c.sentences.size());
  for (std::size_t i = 0; i < c.sentences.size(); ++i) {
    std::reverse(changed.sentences[i].answers.begin(), changed.sentences[i].answers.end());
    EXPECT_EQ(changed.sentences[i].answers, c.sentences[i].answers);
  }
  for (std::size_t i = 0; i < c.subjects.size(); ++i)
    EXPECT_NE(changed.subjects[i].prompt, c.subjects[i].prompt);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::lm
