// Records kept with the repository lower to the programs that they lowered to when they were kept.
#include "tessera/app/study/replay.h"

#include <gtest/gtest.h>

#include "tessera/support/files.h"
#include "tests/dataset/dataset_case.h"

namespace tessera::app {
namespace {

TEST(Replay, TheCorpusLowersToTheProgramsThatWereKept) {
  const Result<ReplayResult> done = replay(REPLAY_CORPUS, 2);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_TRUE(done->mismatches.empty())
      << done->mismatches.size() << " of " << done->records << " records, the first:\n"
      << to_text(done->mismatches[0], "tests/app/replay");
  for (const char* family : {"contract", "conv", "conv_transpose", "conv_winograd", "depthwise",
                             "pool", "softmax", "layernorm", "rmsnorm", "reduce", "mul", "concat",
                             "expand", "slice", "gather", "transpose"}) {
    const auto found = done->families.find(family);
    ASSERT_NE(found, done->families.end()) << family;
    EXPECT_GE(found->second, 200u) << family;
  }
}

class ReplayFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = dataset::test_folder("corpus");
    save(dataset::small_dataset(6));
    ASSERT_EQ(keep_programs(folder_, 2).value(), 18u);
  }
  void save(const dataset::Dataset& data) const {
    const Result<void> saved = dataset::save(data, folder_);
    ASSERT_TRUE(saved.ok()) << saved.error().message;
  }
  std::string folder_;
};

TEST_F(ReplayFolder, AnotherProgramIsTold) {
  EXPECT_TRUE(replay(folder_, 1)->mismatches.empty());
  const std::string path = folder_ + "/programs.txt";
  std::string text = read_file(path).value();
  text[17 * 4] = text[17 * 4] == '0' ? '1' : '0';
  ASSERT_TRUE(write_file(path, {text}).ok());
  const ReplayResult done = replay(folder_, 2).value();
  ASSERT_EQ(done.mismatches.size(), 1u);
  const dataset::Dataset data = dataset::load(folder_).value();
  EXPECT_EQ(done.mismatches[0].schedule, data.examples[4].schedule);
  const std::string told = to_text(done.mismatches[0], folder_);
  EXPECT_NE(told.find(data.tasks[0].key), std::string::npos) << told;
  EXPECT_NE(told.find(data.examples[4].schedule), std::string::npos) << told;
  EXPECT_NE(told.find("tessera dataset replay " + folder_ + " --update"), std::string::npos);
}

TEST_F(ReplayFolder, StepsThatNoLongerLowerAreTold) {
  dataset::Dataset data = dataset::load(folder_).value();
  const std::string programs = read_file(folder_ + "/programs.txt").value();
  data.examples[2].schedule = "split nothing i 4\n";
  save(data);
  ASSERT_TRUE(write_file(folder_ + "/programs.txt", {programs}).ok());
  const ReplayResult done = replay(folder_, 1).value();
  ASSERT_EQ(done.mismatches.size(), 1u);
  EXPECT_NE(to_text(done.mismatches[0], folder_).find("does not lower"), std::string::npos);
  EXPECT_FALSE(keep_programs(folder_, 1).ok());
}

TEST_F(ReplayFolder, EveryRecordHasALine) {
  ASSERT_TRUE(write_file(folder_ + "/programs.txt", {"0123456789abcdef\n"}).ok());
  const Result<ReplayResult> done = replay(folder_, 1);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
}

TEST(Replay, PicksOfEveryFamily) {
  const dataset::Dataset data = dataset::small_dataset(20);
  const dataset::Dataset few = pick_by_family(data, 5);
  ASSERT_EQ(few.tasks.size(), 3u);
  EXPECT_EQ(few.examples.size(), 15u);
  EXPECT_EQ(pick_by_family(data, 100).examples.size(), 60u);
}

}  // namespace
}  // namespace tessera::app
