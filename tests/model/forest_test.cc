#include "tessera/learn/model/models/forest.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tessera::model {
namespace {

std::string bytes_of(const nlohmann::json& json) {
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_ubjson(json);
  return {bytes.begin(), bytes.end()};
}

nlohmann::json model_of(const std::vector<nlohmann::json>& trees, const std::string& base = "0E0") {
  return {{"learner",
           {{"learner_model_param", {{"base_score", base}}},
            {"gradient_booster", {{"model", {{"trees", trees}}}}}}}};
}

// x1 < 0.5 ? (x0 < -1 ? 10 : 20) : 30, its nodes not in breadth-first order.
nlohmann::json small_tree() {
  return {{"left_children", {1, 3, -1, -1, -1}},
          {"right_children", {2, 4, -1, -1, -1}},
          {"split_indices", {1, 0, 0, 0, 0}},
          {"split_conditions", {0.5, -1.0, 30.0, 10.0, 20.0}},
          {"default_left", {0, 1, 0, 0, 0}}};
}

TEST(Forest, WalksEveryRowToItsLeaf) {
  const nlohmann::json stump = {{"left_children", {-1}},
                                {"right_children", {-1}},
                                {"split_indices", {0}},
                                {"split_conditions", {0.25}},
                                {"default_left", {0}}};
  const auto forest = Forest::from_ubjson(bytes_of(model_of({small_tree(), stump}, "1E0")));
  ASSERT_TRUE(forest.ok()) << forest.error().message;
  EXPECT_EQ(forest->trees(), 2u);
  EXPECT_EQ(forest->columns(), 2u);
  std::vector<float> rows, want;
  for (int i = 0; i < 75; ++i) {  // several blocks and a rest
    const float x0 = i % 3 == 0 ? -2.f : -1.f, x1 = i % 2 == 0 ? 0.5f : 0.25f;
    rows.insert(rows.end(), {x0, x1, 9.f});
    want.push_back(1.25f + (x1 < 0.5f ? (x0 < -1.f ? 10.f : 20.f) : 30.f));
  }
  std::vector<float> got(want.size());
  forest->predict(rows.data(), got.size(), 3, got.data());
  EXPECT_EQ(got, want);
}

TEST(Forest, MissingAndInfiniteValuesEndInALeafOfTheTree) {
  // The second tree stands behind the first: what leaves the first by its last node is seen. The
  // last leaf of all is behind nothing.
  const auto forest = Forest::from_ubjson(bytes_of(model_of({small_tree(), small_tree()})));
  ASSERT_TRUE(forest.ok()) << forest.error().message;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> rows = {kNaN, 0.f,  kNaN,  kNaN, 0.f,   kNaN,  kInf, 0.f,
                                   kInf, kInf, -kInf, 0.f,  -kInf, -kInf, 0.f,  -kInf};
  // Missing goes left at the inner node and right at the root.
  const std::vector<float> want = {20, 60, 60, 40, 60, 20, 20, 40};
  std::vector<float> got(want.size());
  forest->predict(rows.data(), got.size(), 2, got.data());
  EXPECT_EQ(got, want);
}

TEST(Forest, RefusesWhatIsNoTree) {
  nlohmann::json loop = small_tree(), outside = small_tree(), short_one = small_tree();
  loop["left_children"][1] = 0;
  outside["right_children"][1] = 99;
  short_one["split_conditions"].erase(4);
  for (const nlohmann::json& bad : {loop, outside, short_one}) {
    EXPECT_EQ(Forest::from_ubjson(bytes_of(model_of({bad}))).error().code,
              ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(Forest::from_ubjson("").ok());
  EXPECT_FALSE(Forest::from_ubjson("nonsense").ok());
  EXPECT_FALSE(Forest::from_ubjson(bytes_of({{"learner", 3}})).ok());
}

}  // namespace
}  // namespace tessera::model
