#include "tessera/app/study/note_data.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/learn/dataset/candidate_rows.h"
#include "tessera/learn/dataset/training.h"
#include "tessera/learn/nn/network_file.h"
#include "tests/dataset/dataset_case.h"
#include "tests/infer/random_network.h"

namespace tessera::app {
namespace {

class NoteData : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = dataset::small_dataset(24);
    options_.data = dataset::test_folder("data");
    ASSERT_TRUE(dataset::save(data_, options_.data).ok());
    path_ = dataset::test_folder("net") + ".safetensors";
    options_.models.push_back({.path = path_});
  }

  // A file of a training of before, and what became of it.
  Result<NotedData> note(const nn::Notes& notes) {
    nn::TrainedNetwork network = infer::testing::random_network(
        "mlp", static_cast<std::int64_t>(dataset::row_names(feature::Rows::kStatement).size()), 0,
        false, 3);
    network.notes = notes;
    EXPECT_TRUE(nn::save_network(network, path_).ok());
    TESSERA_TRY(const std::vector<NotedData> all, note_training_data(options_));
    EXPECT_EQ(all.size(), 1u);
    notes_ = nn::load_network(path_).value().notes;
    return all.front();
  }

  std::string records(const dataset::SplitOptions& how) const {
    const dataset::Split split = dataset::split(data_, how).value();
    return fmt::format("{}", std::count(split.part.begin(), split.part.end(), dataset::kTrain));
  }

  dataset::Dataset data_;
  std::string path_;
  EvalOptions options_;
  nn::Notes notes_;
};

TEST_F(NoteData, NotesKindsOfTheTrainingPartAlone) {
  const auto noted = note({{"split", "by_network"}, {"holdout", "resnet50"}, {"loss", "rank"}});
  ASSERT_TRUE(noted.ok()) << noted.error().message;
  EXPECT_FALSE(noted->exact) << "nothing says that it is this data";
  EXPECT_EQ(notes_.at("loss"), "rank");
  const nn::KindCounts kinds = nn::kinds_of(notes_);
  EXPECT_EQ(kinds.size(), noted->kinds);
  std::int64_t examples = 0;
  for (const auto& [kind, count] : kinds) {
    EXPECT_NE(kind.find(" 1 f32 "), std::string::npos) << kind;
    EXPECT_EQ(kind.find("aarch64:32x16:"), 0u) << kind;
    examples += count;
  }
  EXPECT_EQ(examples, noted->examples);
  EXPECT_EQ(examples, 21) << "softmax alone is not of resnet50; every eighth of 24 failed";
  EXPECT_FALSE(nn::training_tasks(notes_).has_value());
}

TEST_F(NoteData, NotesTasksWhereTheSplitCanBeDrawnAgain) {
  dataset::SplitOptions how;
  how.holdout = {"resnet50"};
  // By keys as by reductions: only softmax is left, in one part or the other.
  nn::Notes notes = {{"split", "by-network"},
                     {"holdout", "resnet50"},
                     {"dataset", dataset::digest(data_)},
                     {"records", records(how)}};
  const auto both = note(notes);
  ASSERT_TRUE(both.ok());
  EXPECT_FALSE(both->exact) << "two splits have as many records";
  notes["records"] = "7";
  EXPECT_FALSE(note(notes)->exact);
}

TEST_F(NoteData, RefusesWhatSaysNothing) {
  EXPECT_NE(note({}).error().message.find("do not say how its data was split"), std::string::npos);
  EXPECT_FALSE(note({{"split", "by-eye"}}).ok());
  EXPECT_FALSE(note({{"split", "by-network"}, {"holdout", "nobody"}}).ok());
  options_.machine = "x86_64";
  EXPECT_NE(note({{"split", "by-network"}, {"holdout", "resnet50"}})
                .error()
                .message.find("was trained on nothing"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::app
