#include "tessera/dataset/training.h"

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
