// Several models that judge together.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/learn/model/cost_model.h"
#include "tessera/learn/model/row_schema.h"
#include "tessera/support/temporary_folder.h"
#include "tests/infer/random_network.h"
#include "tests/model/stub_model.h"

namespace tessera::model {
namespace {

// Scores are a line through the first column.
class Line final : public testing::StubModel {
 public:
  Line(float slope, float offset) : slope_(slope), offset_(offset) {}
  std::vector<float> predict(const feature::FeatureSet& set) const override {
    std::vector<float> out;
    for (std::size_t i = 0; i < set.candidates(); ++i) {
      out.push_back(offset_ + slope_ * set.values[i * set.columns]);
    }
    return out;
  }
  std::vector<float> log_time(const feature::FeatureSet& set) const override {
    return std::vector<float>(slope_ > 0 ? set.candidates() : 0, offset_);
  }
  int most_threads() const override { return static_cast<int>(offset_); }
  std::int64_t examples_of(const std::string& kind) const override {
    return kind == "known" ? static_cast<std::int64_t>(offset_) : 0;
  }

 private:
  float slope_, offset_;
};

std::shared_ptr<const CostModel> line(float slope, float offset) {
  return std::make_shared<Line>(slope, offset);
}

feature::FeatureSet column(const std::vector<float>& values) {
  feature::FeatureSet set;
  set.columns = 1;
  for (const float v : values) set.add(std::vector<float>{v});
  return set;
}

TEST(Committee, WeighsItsMembersByTheirOrderNotByTheirUnits) {
  const auto both = make_committee({line(1000, 5), line(-0.001f, 2), line(0.001f, 3)});
  ASSERT_TRUE(both->per_task());
  const feature::FeatureSet sample = column({-2, -1, 0, 1, 2});
  const auto judge = both->for_task(sample);
  ASSERT_NE(judge, nullptr);
  const Judgement judged = judge->judge(column({0, 2}));
  ASSERT_EQ(judged.scores.size(), 2u);
  EXPECT_NEAR(judged.scores[0], 0, 1e-3);
  // sqrt(2) of two members, -sqrt(2) of one.
  EXPECT_NEAR(judged.scores[1], std::sqrt(2.0) / 3, 1e-3);
  EXPECT_NEAR(judged.spread[0], 0, 1e-3) << "offsets are no disagreement";
  EXPECT_NEAR(judged.spread[1], std::sqrt(2.0) * 2 / std::sqrt(3.0), 1e-2);
  EXPECT_EQ(judge->predict(column({0, 2})), judged.scores);
  EXPECT_EQ(judge->spread(column({0, 2})), judged.spread);
}

TEST(Committee, TellsTheMeanOfTheTimesThatAreTold) {
  const auto both = make_committee({line(1, 5), line(-1, 2), line(1, 3)});
  EXPECT_EQ(both->log_time(column({7})), std::vector<float>{4});
  EXPECT_EQ(both->most_threads(), 5);
  EXPECT_EQ(both->examples_of("known"), 2) << "what all of them know";
  EXPECT_EQ(both->examples_of("other"), 0);
  EXPECT_EQ(make_committee({line(1, 5), line(1, 0)})->most_threads(), 0) << "one does not tell";
  EXPECT_TRUE(make_committee({line(-1, 2)})->log_time(column({7})).empty());
}

TEST(Committee, GoesOnWithoutThoseThatCannotTell) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto judge = make_committee({line(nan, 0), line(2, 0)})->for_task(column({-1, 0, 1}));
  ASSERT_NE(judge, nullptr);
  const std::vector<float> scores = judge->predict(column({-1, 1}));
  EXPECT_LT(scores[0], scores[1]);
  EXPECT_EQ(make_committee({line(nan, 0)})->for_task(column({-1, 0, 1})), nullptr);
  EXPECT_TRUE(std::isnan(make_committee({line(nan, 0)})->predict(column({1})).front()));
  // A member that scores all alike has no say.
  const auto flat = make_committee({line(0, 4), line(1, 0)})->for_task(column({-1, 0, 1}));
  EXPECT_TRUE(std::isfinite(flat->predict(column({3})).front()));
}

class CommitteeFiles : public ::testing::Test {
 protected:
  std::string write(const char* rows, const char* network, std::uint64_t seed) {
    const RowSchema schema = row_schema(rows).value();
    nn::TrainedNetwork n = infer::testing::random_network(network, schema.columns, 0, false, seed);
    n.row_schema = schema.digest;
    const std::string path = fmt::format("{}/{}{}.safetensors", folder_.path(), network, seed);
    EXPECT_TRUE(nn::save_network(n, path).ok());
    return path;
  }

  // Tests run side by side.
  const TemporaryFolder folder_ = TemporaryFolder::make("committee").value();
};

TEST_F(CommitteeFiles, AreLoadedTogether) {
  const std::string a = write("statement", "mlp", 1), b = write("statement", "mlp", 2);
  const auto alone = load_models({a});
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_FALSE((*alone)->per_task());
  const auto both = load_models({a, b}, 2);
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_TRUE((*both)->per_task());
  EXPECT_EQ((*both)->needs(), (*alone)->needs());
  const RowSchema schema = row_schema("statement").value();
  const auto network = infer::testing::random_network("mlp", schema.columns, 0, false, 1);
  const Judgement judged = (*both)->judge(infer::testing::random_features(network, 9, 3, 2));
  ASSERT_EQ(judged.scores.size(), 9u);
  ASSERT_EQ(judged.spread.size(), 9u);
  for (const float s : judged.spread) EXPECT_GT(s, 0);
}

TEST_F(CommitteeFiles, ThatDoNotFitTogetherAreRefused) {
  const std::string a = write("statement", "mlp", 1), b = write("step", "sequence", 2);
  const auto mixed = load_models({a, b});
  ASSERT_FALSE(mixed.ok());
  EXPECT_EQ(mixed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(mixed.error().message.find("other features"), std::string::npos);
  EXPECT_FALSE(load_models({}).ok());
  EXPECT_FALSE(load_models(std::vector<std::string>(kMostMembers + 1, a)).ok());
  EXPECT_FALSE(load_models({a, a + ".absent"}).ok());
}

}  // namespace
}  // namespace tessera::model
