#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "synthetic.h"
#include "tessera/learn/model/cost_model.h"
#include "tests/testing/xgboost.h"

namespace tessera::model {
namespace {

using testing::make_synthetic;
using testing::pair_accuracy;

std::unique_ptr<CostModel> make_or_null(const std::string& name, const std::string& objective,
                                        std::uint64_t seed = 1) {
  auto model = make_model(name, {objective, seed, "feedfacefeedface"});
  if (!tessera::testing::has_trees(model)) return nullptr;
  return std::move(*model);
}

class Objective : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<CostModel> model(const std::string& name = "gbt", std::uint64_t seed = 1) {
    return make_or_null(name, GetParam(), seed);
  }
};

TEST_P(Objective, OverfitsThirtyTwoRecords) {
  auto m = model();
  if (!m) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const TrainingSet data = make_synthetic(32, 1, 3);
  EXPECT_FALSE(m->ready());
  ASSERT_TRUE(m->fit(data, {}).ok());
  EXPECT_TRUE(m->ready());
  EXPECT_GE(pair_accuracy(data, m->predict(data.features)), 0.99);
}

TEST_P(Objective, OrdersUnseenCandidatesOfSeveralTasks) {
  auto m = model();
  if (!m) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const TrainingSet train = make_synthetic(1200, 6, 4);
  const TrainingSet test = make_synthetic(600, 6, 5);
  ASSERT_TRUE(m->fit(train, {}).ok());
  EXPECT_GE(pair_accuracy(test, m->predict(test.features)), 0.9);
}

TEST_P(Objective, SameSeedSameScores) {
  auto a = model(), b = model();
  if (!a) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const TrainingSet data = make_synthetic(300, 2, 6);
  ASSERT_TRUE(a->fit(data, {}).ok());
  ASSERT_TRUE(b->fit(data, {}).ok());
  EXPECT_EQ(a->predict(data.features), b->predict(data.features));
  // A second fit forgets the first.
  ASSERT_TRUE(a->fit(make_synthetic(200, 2, 9), {}).ok());
  ASSERT_TRUE(a->fit(data, {}).ok());
  EXPECT_EQ(a->predict(data.features), b->predict(data.features));
}

TEST_P(Objective, SavedModelsPredictTheSame) {
  for (const char* name : {"gbt", "gbt_ensemble", "random"}) {
    auto a = model(name), b = model(name, 77);
    if (!a) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
    const TrainingSet data = make_synthetic(200, 2, 7);
    const std::string path = ::testing::TempDir() + "/model_" + name + "_" + GetParam() + ".bin";
    ASSERT_TRUE(a->fit(data, {}).ok());
    const Result<void> saved = a->save(path);
    ASSERT_TRUE(saved.ok()) << saved.error().message;
    const Result<void> loaded = b->load(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(a->predict(data.features), b->predict(data.features)) << name;
    std::filesystem::remove(path);
  }
}

INSTANTIATE_TEST_SUITE_P(Xgb, Objective, ::testing::Values("rank", "regression"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Xgb, TimeLimitStopsTheFitWithAUsableModel) {
  auto m = make_or_null("gbt", "rank");
  if (!m) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const TrainingSet data = make_synthetic(2000, 4, 8);
  FitOptions options;
  options.time_limit_s = 1e-9;
  ASSERT_TRUE(m->fit(data, options).ok());
  EXPECT_GT(pair_accuracy(data, m->predict(data.features)), 0.6);
}

TEST(Xgb, RefusesDataThatMakesNoSense) {
  auto m = make_or_null("gbt", "rank");
  if (!m) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  EXPECT_FALSE(m->fit({}, {}).ok());
  TrainingSet data = make_synthetic(10, 1, 1);
  data.labels.pop_back();
  EXPECT_FALSE(m->fit(data, {}).ok());
  data = make_synthetic(10, 1, 1);
  data.features.values[5] = std::nanf("");
  const auto fitted = m->fit(data, {});
  ASSERT_FALSE(fitted.ok());
  EXPECT_NE(fitted.error().message.find("finite"), std::string::npos);
  EXPECT_FALSE(m->ready());
}

TEST(Xgb, EqualLabelsAndFailuresAreNoProblem) {
  auto m = make_or_null("gbt", "rank");
  if (!m) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  TrainingSet data = make_synthetic(64, 1, 2);
  for (float& label : data.labels) label = 0;
  ASSERT_TRUE(m->fit(data, {}).ok());
  for (const float s : m->predict(data.features)) EXPECT_TRUE(std::isfinite(s));
}

TEST(Ensemble, IsSurerNearItsData) {
  auto m = make_or_null("gbt_ensemble", "regression");
  if (!m) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const TrainingSet data = make_synthetic(400, 1, 11);
  ASSERT_TRUE(m->fit(data, {}).ok());
  EXPECT_GE(pair_accuracy(data, m->predict(data.features)), 0.9);
  const std::vector<float> spread = m->spread(data.features);
  ASSERT_EQ(spread.size(), data.labels.size());
  double near = 0;
  for (const float s : spread) near += s / static_cast<float>(spread.size());
  const TrainingSet other = make_synthetic(400, 1, 12);
  double far = 0;
  for (const float s : m->spread(other.features)) far += s / static_cast<float>(spread.size());
  EXPECT_GT(near, 0);
  EXPECT_GT(far, near);
}

TEST(ModelTable, MistypedNamesAreAnsweredWithTheList) {
  const auto model = make_model("xbg", {});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(model.error().message.find("gbt, gbt_ensemble, random"), std::string::npos);
  EXPECT_FALSE(make_model("gbt", {"listwise", 1, ""}).ok());
}

}  // namespace
}  // namespace tessera::model
