#include "tessera/app/study/train_trees.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "../dataset/dataset_case.h"
#include "tessera/app/study/eval.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/learn/model/model_file.h"
#include "tessera/support/npz.h"
#include "tests/testing/xgboost.h"

namespace tessera::app {
namespace {

class TrainTrees : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::has_trees(model::make_model("gbt", {})))
      GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
    folder_ = dataset::test_folder("train_trees");
    data_ = dataset::small_dataset(48);
    ASSERT_TRUE(dataset::save(data_, folder_ + "/data").ok());
    options_.data = folder_ + "/data";
    options_.features = folder_ + "/features";
    options_.output = folder_ + "/trees.model";
    options_.scores = folder_ + "/scores.npz";
    options_.split.kind = dataset::SplitKind::kWithinTask;
    options_.split.test = 0.3;
    options_.rounds = 20;
  }

  std::string folder_;
  dataset::Dataset data_;
  TrainTreesOptions options_;
};

TEST_F(TrainTrees, WritesAModelThatSearchCanLoad) {
  const auto result = train_trees(options_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->tasks, 3u);
  EXPECT_GT(result->records, 40u);
  EXPECT_GT(result->test.average.records, 0);
  const auto model = model::load_model(options_.output, 2);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->needs(), (model::Needs{"statement", false, false}));
  const auto store = dataset::open_features(data_, feature::Rows::kStatement, options_.features, 1);
  ASSERT_TRUE(store.ok());
  const auto scores = read_npz(options_.scores);
  ASSERT_TRUE(scores.ok());
  ASSERT_EQ(scores->at(0).tensor.size(), static_cast<std::int64_t>(data_.examples.size()));
  feature::FeatureSet set;
  set.columns = static_cast<std::size_t>((*store)->columns());
  for (std::size_t i = 0; i < (*store)->size(); ++i) set.add((**store)[i].rows);
  const std::vector<float> again = (*model)->predict(set);
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i], scores->at(0).tensor.as<float>()[i]) << i;
  }
}

TEST_F(TrainTrees, NotesWhatItLearntFrom) {
  options_.split.kind = dataset::SplitKind::kByNetwork;
  options_.split.holdout = {"resnet50"};
  options_.seed = 7;
  ASSERT_TRUE(train_trees(options_).ok());
  const auto file = model::read_model_file(options_.output);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->notes.at("split"), "by-network");
  EXPECT_EQ(file->notes.at("holdout"), "resnet50");
  EXPECT_EQ(file->notes.at("seed"), "7");
  EXPECT_EQ(file->notes.at("loss"), "rank");
  EXPECT_EQ(file->notes.at("dataset"), dataset::digest(data_));
  EXPECT_NE(file->notes.at("targets").find("threads="), std::string::npos);
  const auto loaded = model::load_model(options_.output);
  ASSERT_TRUE(loaded.ok());
  EXPECT_GT((*loaded)->most_threads(), 0);
  // What another split tests was seen.
  EvalOptions eval;
  eval.data = options_.data;
  eval.split.kind = dataset::SplitKind::kWithinTask;
  eval.models.push_back({EvalSource::Kind::kWeights, options_.output, "", "", ""});
  const auto result = evaluate_models(eval);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GT(result->models[0].seen.value_or(0), 0u);
}

TEST_F(TrainTrees, MeasuresOnTheNetworksHeldOutOnly) {
  options_.split.kind = dataset::SplitKind::kByNetwork;
  options_.split.holdout = {"resnet50"};
  const auto result = train_trees(options_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->tasks, 1u);
  // "tiny" shares a task with it.
  ASSERT_EQ(result->test.networks.size(), 1u);
  EXPECT_EQ(result->test.networks.begin()->first, "resnet50");
  EXPECT_EQ(result->test.top1, result->test.networks.begin()->second.top1);
}

TEST_F(TrainTrees, SamplesTasksEvenlyWhenMemoryIsShort) {
  const auto all = train_trees(options_);
  ASSERT_TRUE(all.ok());
  options_.most_values = 20'000;
  const auto some = train_trees(options_);
  ASSERT_TRUE(some.ok()) << some.error().message;
  EXPECT_LT(some->records, all->records);
  EXPECT_EQ(some->tasks, 3u);
}

TEST_F(TrainTrees, SaysWhenThereIsNothingToLearnFrom) {
  options_.machine = "no such machine";
  EXPECT_EQ(train_trees(options_).error().code, ErrorCode::kInvalidArgument);
  options_.data = folder_ + "/absent";
  EXPECT_EQ(train_trees(options_).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace tessera::app
