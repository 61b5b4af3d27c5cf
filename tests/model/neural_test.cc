#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/learn/infer/network_scorer.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/learn/model/row_schema.h"
#include "tessera/scheduling/feature/extract.h"
#include "tests/infer/random_network.h"

namespace tessera::model {
namespace {

TEST(Neural, TellsWhatItCannotJudgeAndGoesOn) {
  const RowSchema schema = row_schema("statement").value();
  nn::TrainedNetwork network = infer::testing::random_network("mlp", schema.columns, 0, false, 1);
  network.row_schema = schema.digest;
  network.notes["targets"] = "triple=a cores=1 threads=1; triple=b cores=8 threads=2";
  network.notes["kinds"] = "m 1 f32 a=3";
  const std::string path = ::testing::TempDir() + "/neural_test.safetensors";
  ASSERT_TRUE(nn::save_network(network, path).ok());
  const auto model = load_model(path);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->most_threads(), 2);
  EXPECT_EQ((*model)->examples_of("m 1 f32 a"), 3);
  EXPECT_EQ((*model)->examples_of("m 1 f16 a"), 0);
  EXPECT_EQ((*model)->last_error(), "");
  feature::FeatureSet other;
  other.columns = 3;
  other.add(std::vector<float>(3, 1.f));
  other.add(std::vector<float>(6, 1.f));
  const std::vector<float> scores = (*model)->predict(other);
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_TRUE(std::isnan(scores[0]) && std::isnan(scores[1]));
  EXPECT_NE((*model)->last_error(), "");
  EXPECT_TRUE((*model)->log_time(other).empty());
  for (const float s : (*model)->predict(infer::testing::random_features(network, 5, 3, 2))) {
    EXPECT_TRUE(std::isfinite(s));
  }
  std::filesystem::remove(path);
}

TEST(LoadModel, ReadsNetworksOfItsOwnFeaturesOnly) {
  const std::string path = ::testing::TempDir() + "/network.safetensors";
  const auto columns =
      static_cast<std::int64_t>(feature::feature_names(feature::FeatureKind::kStatement).size());
  nn::TrainedNetwork network = infer::testing::random_network("mlp", columns, 0, false, 4);
  network.row_schema = feature::schema_digest(feature::FeatureKind::kStatement);
  network.time_shift = -9;
  network.residual_low = -0.5;
  ASSERT_TRUE(nn::save_network(network, path).ok());
  const auto model = load_model(path);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->needs(), (Needs{"statement", false, false}));
  EXPECT_FALSE((*model)->fit({}, {}).ok());
  const feature::FeatureSet set = infer::testing::random_features(network, 5, 3, 2);
  auto scorer = infer::NetworkScorer::make(network, 1);
  ASSERT_TRUE(scorer.ok());
  const infer::NetworkOutputs out = (*scorer)->run(set).value();
  const std::vector<float> score = (*model)->predict(set), time = (*model)->log_time(set);
  for (std::size_t i = 0; i < score.size(); ++i) {
    EXPECT_NEAR(score[i], out.score[i] - std::log1p(std::exp(-out.validity[i])), 1e-4);
    EXPECT_NEAR(time[i], out.log_time[i] - 9, 1e-4);
  }
  network.row_schema = "0123456789abcdef";
  ASSERT_TRUE(nn::save_network(network, path).ok());
  EXPECT_EQ(load_model(path).error().code, ErrorCode::kInvalidArgument);
  std::filesystem::resize_file(path, 100);
  EXPECT_FALSE(load_model(path).ok());
  std::filesystem::remove(path);
  EXPECT_EQ(load_model(path).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace tessera::model
