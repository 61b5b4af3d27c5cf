#include "tessera/learn/train/sentences.h"

#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "tessera/learn/lm/shard.h"
#include "tessera/learn/train/language_batch.h"
#include "tests/train/toy_sentences.h"

namespace tessera::train {
namespace {

TEST(Sentences, KeepsChoicesOnly) {
  Sentences all;
  const std::uint32_t subject = all.add(toy_subject(1));
  EXPECT_EQ(all.add(toy_subject(1)), subject);
  lm::Sentence sentence;
  sentence.quality = 0.5F;
  sentence.answers = {{0, 2, {1, 2}}, {1, 3, {3}}, {3, 0, {0, 1, 3}}};
  ASSERT_TRUE(all.add(subject, sentence, 64).ok());
  ASSERT_TRUE(all.add(subject, sentence, 1).ok());
  sentence.answers = {{1, 3, {3}}};
  ASSERT_TRUE(all.add(subject, sentence, 64).ok());
  ASSERT_EQ(all.size(), 2u);  // the last has no choice
  const auto answers = all.answers(all[0]);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1].question, 3);
  EXPECT_EQ(answers[1].taken, 0);
  const auto legal = all.legal(answers[1]);
  EXPECT_EQ(std::vector<int>(legal.begin(), legal.end()), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(all.answers(all[1]).size(), 1u);
}

// For other numbers of threads a sketch of the same name asks for other values.
TEST(Sentences, SubjectsOfOneNameMayAskForOtherValues) {
  Sentences all;
  lm::Subject more = toy_subject(1);
  more.questions[0].values.push_back(more.questions[0].values[0]);
  const std::uint32_t first = all.add(toy_subject(1)), second = all.add(more);
  EXPECT_NE(first, second);
  EXPECT_EQ(all.add(more), second);
  EXPECT_EQ(all.add(toy_subject(1)), first);
  lm::Sentence sentence;
  sentence.answers = {{0, static_cast<std::int32_t>(more.questions[0].values.size()) - 1, {0, 1}}};
  sentence.answers[0].legal.push_back(sentence.answers[0].taken);
  EXPECT_FALSE(all.add(first, sentence, 64).ok());
  EXPECT_TRUE(all.add(second, sentence, 64).ok());
}

TEST(Sentences, RefusesAnswersThatTheSubjectDoesNotAsk) {
  Sentences all;
  const std::uint32_t subject = all.add(toy_subject(0));
  const lm::Answer wrong[] = {{-1, 0, {0, 1}}, {4, 0, {0, 1}}, {0, 4, {0, 4}}, {0, 2, {0, 1}}};
  for (const lm::Answer& answer : wrong) {
    lm::Sentence sentence;
    sentence.answers = {answer};
    EXPECT_FALSE(all.add(subject, sentence, 64).ok());
  }
}

TEST(Sentences, ComeFromShards) {
  const std::string folder = ::testing::TempDir() + "tessera_train_shards";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  EXPECT_FALSE(load_sentences({folder}, 64).ok());
  for (std::size_t i = 0; i < 2; ++i) {
    lm::ShardWriter writer = lm::ShardWriter::create(lm::shard_path(folder, i)).value();
    const std::int32_t subject = writer.add(toy_subject(3)).value();
    lm::Sentence sentence;
    sentence.subject = subject;
    sentence.answers = {{0, static_cast<std::int32_t>(i), {0, 1}}};
    ASSERT_TRUE(writer.add(sentence).ok());
    ASSERT_TRUE(writer.flush().ok());
  }
  const Sentences all = load_sentences({folder}, 64).value();
  EXPECT_EQ(all.subjects(), 1u);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all.answers(all[0])[0].taken, 0);
  EXPECT_EQ(all.answers(all[1])[0].taken, 1);
  EXPECT_EQ(all.subject(0), toy_subject(3));
}

TEST(Sentences, TheBestOfEveryTaskIsKept) {
  Sentences all;
  const float qualities[2][3] = {{0.2F, 0.96F, 1.0F}, {0.1F, 0.6F, 0.3F}};
  std::vector<std::uint32_t> among;
  for (int task = 0; task < 2; ++task) {
    const std::uint32_t subject = all.add(toy_subject(task));
    for (const float quality : qualities[task]) {
      lm::Sentence sentence;
      sentence.quality = quality;
      sentence.answers = {{0, 0, {0, 1}}};
      ASSERT_TRUE(all.add(subject, sentence, 64).ok());
      among.push_back(static_cast<std::uint32_t>(among.size()));
    }
  }
  EXPECT_EQ(best_of_tasks(all, among, 0.95), (std::vector<std::uint32_t>{1, 2, 4}));
}

TEST(Sentences, ReductionsAreHeldOutTogether) {
  int out = 0;
  for (int i = 0; i < 1000; ++i) {
    lm::Subject a = toy_subject(i), b = toy_subject(i);
    b.task = "another";
    EXPECT_EQ(held_out(a, 0.2), held_out(b, 0.2));
    out += held_out(a, 0.2) ? 1 : 0;
    EXPECT_FALSE(held_out(a, 0));
    EXPECT_TRUE(held_out(a, 1));
  }
  EXPECT_NEAR(out, 200, 50);
}

TEST(PlanSentences, TakesEveryEntryOnceInAsManySteps) {
  Sentences all;
  add_toys(all, 0, 7, 11, true, 1);
  std::vector<std::uint32_t> entries;
  for (std::uint32_t i = 0; i < all.size(); ++i) entries.push_back(i);
  std::set<std::size_t> counts;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Rng rng(seed);
    const auto steps = plan_sentences(all, entries, 3, 4, rng);
    counts.insert(steps.size());
    std::multiset<std::uint32_t> seen;
    for (const LanguageStep& step : steps) {
      EXPECT_LE(step.size(), 3u);
      for (const SentenceGroup& group : step) {
        EXPECT_LE(group.entries.size(), 4u);
        for (const std::uint32_t i : group.entries) {
          EXPECT_EQ(all[i].subject, group.subject);
          seen.insert(i);
        }
      }
    }
    EXPECT_EQ(seen, std::multiset<std::uint32_t>(entries.begin(), entries.end()));
  }
  EXPECT_EQ(counts, (std::set<std::size_t>{7}));  // 7 subjects of 3 groups
}

TEST(FillSentences, WritesWordsAnswersAndWhatIsLegal) {
  Sentences all;
  const std::uint32_t subject = all.add(toy_subject(1));
  lm::Sentence sentence;
  sentence.quality = 0.5F;
  sentence.answers = {{0, 2, {1, 2}}, {3, 0, {0, 3}}};
  ASSERT_TRUE(all.add(subject, sentence, 64).ok());
  const lm::LanguageSpec spec =
      lm::make_language_spec({}, lm::kWordNumbers, lm::kValueNumbers).value();
  const LanguageStep step = {{subject, {0}}};
  const LanguageBatch batch = fill_sentences(all, spec, step, 2, Told::kOwn, 0, 0);
  EXPECT_EQ(batch.shape.sentences, 2);
  EXPECT_EQ(batch.sentences, 1u);
  const std::int64_t t = batch.shape.answers, n = batch.shape.values;
  const auto at = [](const auto& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; };
  EXPECT_EQ(batch.answered[0] + batch.answered[1], 2);
  EXPECT_EQ(at(batch.answered, 2) + at(batch.answered, t), 0);
  EXPECT_EQ(batch.asked[1], 3);
  EXPECT_EQ(batch.taken[0], 2);
  EXPECT_EQ(at(batch.legal, n + 3), 1);
  EXPECT_EQ(at(batch.legal, n + 1), 0);
  EXPECT_EQ(batch.quality, (std::vector<float>{0.5F, lm::kUnknownQuality}));
  std::vector<float> word(static_cast<std::size_t>(lm::answer_columns(spec)));
  const std::vector<lm::Question>& asked = toy_subject(1).questions;
  lm::write_answer_word(spec, asked[3].word.data(), asked[0].word.data(), asked[0].values[2].data(),
                        0.5F, word.data());
  EXPECT_TRUE(std::equal(word.begin(), word.end(),
                         batch.words.begin() + static_cast<std::ptrdiff_t>(word.size())));
  const auto quality = static_cast<std::size_t>(2 * lm::kWordNumbers + lm::kValueNumbers);
  EXPECT_EQ(fill_sentences(all, spec, step, 2, Told::kNothing, 0, 0).words[quality], 0);
  EXPECT_EQ(fill_sentences(all, spec, step, 2, Told::kOwn, 1, 0).words[quality], 0);
  EXPECT_EQ(fill_sentences(all, spec, step, 2, Told::kBest, 0, 0).words[quality + 7], 1);
}

}  // namespace
}  // namespace tessera::train
