#include "tessera/learn/dataset/training.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "dataset_case.h"
#include "tessera/support/npz.h"

namespace tessera::dataset {
namespace {

TEST(Training, LabelsCompareWithinATaskOnAMachine) {
  const std::vector<Timed> timed = {{0, 0, 2}, {0, 1, 8}, {0, 0, 4}, {1, 0, 1}, {0, 0, 0}};
  EXPECT_EQ(labels_of(timed), (std::vector<float>{1, 1, 0.5f, 1, 0}));
  EXPECT_TRUE(labels_of({}).empty());
}

TEST(Training, KeepsAMachine) {
  Dataset data = small_dataset(4);
  data.machines = {{"triple=a", 1}, {"triple=b", 2}};
  Split split;
  for (std::size_t i = 0; i < data.examples.size(); ++i) {
    data.examples[i].machine = i % 2 == 0 ? 0 : 1;
    split.part.push_back(i % 4 < 2 ? kTest : kTrain);
  }
  Split trained = split, tested = split, all = split;
  keep_machine(data, "triple=a", false, &trained);
  keep_machine(data, "triple=a", true, &tested);
  keep_machine(data, "", true, &all);
  EXPECT_EQ(all.part, split.part);
  for (std::size_t i = 0; i < data.examples.size(); ++i) {
    const bool other = i % 2 == 1;
    EXPECT_EQ(tested.part[i], other ? kLeftOut : split.part[i]);
    EXPECT_EQ(trained.part[i], other && split.part[i] == kTrain ? kLeftOut : split.part[i]);
  }
  EXPECT_EQ(data_notes(data, trained).at("targets"), "triple=a threads=1");
  EXPECT_EQ(data_notes(data, split).at("targets"), "triple=a threads=1; triple=b threads=2");
  EXPECT_EQ(data_notes(data, split).at("dataset"), digest(data));
}

TEST(Training, CountsKindsOfTimedExamples) {
  Dataset data = small_dataset(16);
  Split split;
  split.part.assign(data.examples.size(), kTrain);
  std::int64_t all = 0;
  for (const auto& [kind, count] : kinds_of(data, split)) {
    EXPECT_EQ(kind.find("aarch64:32x16:"), 0u) << kind;
    EXPECT_NE(kind.find(" 1 f32 "), std::string::npos) << kind;
    all += count;
  }
  EXPECT_EQ(all, 3 * 14) << "two of sixteen failed";
  EXPECT_EQ(keys_of(data, split, kTrain).size(), 3u);
  EXPECT_TRUE(keys_of(data, split, kTest).empty());
  for (std::size_t i = 0; i < data.examples.size(); ++i) {
    if (data.examples[i].task == 0) split.part[i] = kTest;
  }
  EXPECT_EQ(keys_of(data, split, kTest), std::set<std::string>{data.tasks[0].key});
  EXPECT_EQ(keys_of(data, split, kTrain).size(), 2u);
  data.tasks[1].format = "ansor";  // of which nothing is known
  all = 0;
  for (const auto& [kind, count] : kinds_of(data, split)) all += count;
  EXPECT_EQ(all, 14);
  data.machines[0].target = "somewhere";
  EXPECT_TRUE(kinds_of(data, split).empty());
}

TEST(Training, NotesOfSplitsAreReadBack) {
  SplitOptions how;
  how.by_reduction = true;
  how.seed = 12345678901u;
  how.test = 0.05;
  how.validation = 0.2;
  how.quiet = true;
  how.most_tasks = 7;
  how.most_per_task = 9;
  SplitOptions back;
  ASSERT_TRUE(read_note(to_note(how), &back).ok()) << to_note(how);
  EXPECT_EQ(to_note(back), to_note(how));
  EXPECT_EQ(back.seed, how.seed);
  EXPECT_EQ(back.validation, how.validation);
  EXPECT_TRUE(back.by_reduction && back.quiet);
  for (const char* bad : {"", "seed=1",
                          "by-reduction=maybe,seed=1,test=0.1,validation=0.1,quiet=no,"
                          "tasks=0,per-task=0",
                          "by-reduction=yes,seed=x,test=0.1,validation=0.1,quiet=no,tasks=0,"
                          "per-task=0"}) {
    EXPECT_FALSE(read_note(bad, &back).ok()) << bad;
  }
}

TEST(Training, WritesColumns) {
  const std::string path = ::testing::TempDir() + "/training_columns.npz";
  const std::vector<float> a = {1, 2}, b = {3, 4};
  ASSERT_TRUE(write_columns(path, {{"score", &a}, {"validity", &b}}).ok());
  const auto back = read_npz(path);
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ(back->at(1).name, "validity");
  EXPECT_EQ(back->at(1).tensor.as<float>()[1], 4);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::dataset
