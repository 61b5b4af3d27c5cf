#include "tessera/learn/lm/shard.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/learn/lm/subject.h"
#include "tessera/learn/lm/transcribe.h"
#include "tessera/support/files.h"
#include "tests/lm/lm_case.h"

namespace tessera::lm {
namespace {

namespace fs = std::filesystem;

// A file of its own for the running test.
class ShardTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/shard_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = shard_path(folder_, 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  struct Content {
    std::vector<Subject> subjects;
    std::vector<Sentence> sentences;
  };

  // Sentences about all sketches of some tasks, `each` of every one.
  static Content content(int each) {
    Content out;
    Rng rng(1);
    for (const char* spec : {kSpecs[0], kSpecs[4]}) {
      const space::Space space = space_of(spec);
      const Scribe scribe(space);
      for (std::size_t i = 0; i < space.sketches().size(); ++i) {
        out.subjects.push_back(scribe.subject(static_cast<std::int32_t>(i)));
        for (int n = 0; n < each; ++n) {
          Sentence s;
          s.subject = static_cast<std::int32_t>(out.subjects.size() - 1);
          s.quality = n % 3 == 0 ? kUnknownQuality : static_cast<float>(n % 9) / 8;
          draw(*space.sketches()[i], rng, &s.answers);
          out.sentences.push_back(std::move(s));
        }
      }
    }
    return out;
  }

  void write(const Content& content) {
    ShardWriter writer = ShardWriter::create(path_).value();
    std::size_t subjects = 0;
    for (const Sentence& s : content.sentences) {
      for (; subjects <= static_cast<std::size_t>(s.subject); ++subjects) {
        const auto number = writer.add(content.subjects[subjects]);
        ASSERT_TRUE(number.ok());
        EXPECT_EQ(*number, static_cast<std::int32_t>(subjects));
      }
      ASSERT_TRUE(writer.add(s).ok());
    }
    ASSERT_TRUE(writer.flush().ok());
    EXPECT_EQ(writer.sentences(), content.sentences.size());
  }

  // All that can be read; `end` says how it ended.
  std::vector<Sentence> read(Result<bool>* end, ShardReader* reader) {
    std::vector<Sentence> out;
    for (;;) {
      Sentence s;
      *end = reader->next(&s);
      if (!end->ok() || !end->value()) return out;
      out.push_back(std::move(s));
    }
  }

  std::string folder_, path_;
};

TEST_F(ShardTest, ReadsWhatWasWritten) {
  const Content all = content(300);
  write(all);
  ShardReader reader = ShardReader::open(path_).value();
  Result<bool> end = true;
  EXPECT_EQ(read(&end, &reader), all.sentences);
  EXPECT_TRUE(end.ok());
  EXPECT_FALSE(reader.torn());
  EXPECT_EQ(reader.subjects(), all.subjects);
  // Answers are short: the legal values of most questions are all, or a range.
  EXPECT_LT(fs::file_size(path_), 100 * all.sentences.size());
}

TEST_F(ShardTest, EqualSentencesGiveEqualFiles) {
  write(content(20));
  const std::string first = read_file(path_).value();
  write(content(20));
  EXPECT_EQ(read_file(path_).value(), first);
}

TEST_F(ShardTest, ACrashCostsTheLastBlock) {
  const Content all = content(3000);
  write(all);
  const std::uint64_t size = fs::file_size(path_);
  for (const std::uint64_t cut : {std::uint64_t{1}, std::uint64_t{5}, size / 2}) {
    fs::resize_file(path_, size - cut);
    ShardReader reader = ShardReader::open(path_).value();
    Result<bool> end = true;
    const std::vector<Sentence> kept = read(&end, &reader);
    ASSERT_TRUE(end.ok()) << end.error().message;
    EXPECT_TRUE(reader.torn());
    ASSERT_LT(kept.size(), all.sentences.size());
    EXPECT_TRUE(std::equal(kept.begin(), kept.end(), all.sentences.begin()));
    if (cut < 100) {
      EXPECT_GT(kept.size(), 0u);
    }
  }
}

TEST_F(ShardTest, DamageIsAnError) {
  write(content(20));
  const std::string good = read_file(path_).value();
  for (const std::size_t at : {good.size() - 10, good.size() / 2}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] + 1);
    ASSERT_TRUE(write_file(path_, {bad}).ok());
    ShardReader reader = ShardReader::open(path_).value();
    Result<bool> end = true;
    read(&end, &reader);
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.error().code, ErrorCode::kIo);
    EXPECT_NE(end.error().message.find(path_), std::string::npos);
  }
}

// A few bytes an answer would otherwise become a list of all values each.
TEST_F(ShardTest, MoreAnswersThanQuestionsAreDamage) {
  Content c = content(1);
  c.sentences.resize(1);
  std::vector<Answer>& answers = c.sentences[0].answers;
  ASSERT_FALSE(answers.empty());
  answers.resize(c.subjects[0].questions.size() + 1, answers[0]);
  write(c);
  ShardReader reader = ShardReader::open(path_).value();
  Sentence s;
  EXPECT_EQ(reader.next(&s).error().code, ErrorCode::kIo);
}

// A block that claims more than its bytes can hold is refused before memory is taken for it.
TEST_F(ShardTest, LengthsBeyondWhatIsThereAreNoBlocks) {
  (void)ShardWriter::create(path_).value();
  const std::string header = read_file(path_).value();
  const std::string huge("\0\0\0\x10", 4), small("\x08\0\0\0", 4), none(8, '\0');
  Sentence s;
  ASSERT_TRUE(write_file(path_, {header, huge, small, none, none}).ok());
  EXPECT_EQ(ShardReader::open(path_)->next(&s).error().code, ErrorCode::kIo);
  ASSERT_TRUE(write_file(path_, {header, huge, huge, none, none}).ok());
  ShardReader torn = ShardReader::open(path_).value();
  EXPECT_FALSE(torn.next(&s).value());
  EXPECT_TRUE(torn.torn());
}

TEST_F(ShardTest, FilesOfOthersAreErrors) {
  EXPECT_EQ(ShardReader::open(path_).error().code, ErrorCode::kIo);
  ASSERT_TRUE(write_file(path_, {"something else, and long enough to hold a header of ours"}).ok());
  EXPECT_EQ(ShardReader::open(path_).error().code, ErrorCode::kIo);
  ASSERT_TRUE(write_file(path_, {"tessera sentences 9\n0123456789abcdef"}).ok());
  EXPECT_EQ(ShardReader::open(path_).error().code, ErrorCode::kUnsupported);
  ASSERT_TRUE(write_file(path_, {"tessera sentences 1\n0123456789abcdef"}).ok());
  const auto other = ShardReader::open(path_);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(other.error().message.find("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(ShardWriter::create(folder_ + "/none/0.sentences").error().code, ErrorCode::kIo);
}

TEST_F(ShardTest, AFolderListsItsShards) {
  EXPECT_EQ(shards_of(folder_).error().code, ErrorCode::kIo);
  EXPECT_EQ(shards_of(folder_ + "/none").error().code, ErrorCode::kIo);
  for (const std::size_t n : {10u, 2u})
    ASSERT_TRUE(ShardWriter::create(shard_path(folder_, n)).ok());
  const auto found = shards_of(folder_);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, (std::vector<std::string>{shard_path(folder_, 2), shard_path(folder_, 10)}));
}

}  // namespace
}  // namespace tessera::lm
