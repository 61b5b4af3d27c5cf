#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "random_network.h"
#include "tessera/feature/extract.h"
#include "tessera/model/cost_model.h"
#include "tessera/model/row_schema.h"

namespace tessera::model {
namespace {

TEST(Neural, TellsWhatItCannotJudgeAndGoesOn) {
  const RowSchema schema = row_schema("statement").value();
  nn::TrainedNetwork network = testing::random_network("mlp", schema.columns, 0, false, 1);
  network.row_schema = schema.digest;
  network.notes["targets"] = "triple=a cores=1 threads=1; triple=b cores=8 threads=2";
  const std::string path = ::testing::TempDir() + "/neural_test.safetensors";
  ASSERT_TRUE(nn::save_network(network, path).ok());
  const auto model = load_model(path);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->most_threads(), 2);
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
  for (const float s : (*model)->predict(testing::random_features(network, 5, 3, 2))) {
    EXPECT_TRUE(std::isfinite(s));
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::model
