// Options behind the name of a policy.
#include "tessera/app/tune/policy_run.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/learn/model/cost_model.h"

namespace tessera::app {
namespace {

Result<PolicyVariant> variant(const std::string& text) {
  return policy_variant(text, {}, target::find_target("neoverse-v1").value());
}

TEST(PolicyVariant, OptionsReachThePolicy) {
  const auto genetic = variant("genetic+population=16");
  ASSERT_TRUE(genetic.ok()) << genetic.error().message;
  EXPECT_EQ(genetic->policy_options.population, 16);
  EXPECT_EQ(variant("genetic")->policy_options.population, 0) << "the policy's own";
  const auto annealing = variant("annealing+diversity=0.5+population=8");
  ASSERT_TRUE(annealing.ok()) << annealing.error().message;
  EXPECT_EQ(annealing->policy_options.diversity, 0.5);
  EXPECT_EQ(annealing->policy_options.population, 8);
}

TEST(PolicyVariant, RefusesPopulationsThatAreNone) {
  for (const char* text : {"population=0", "population=-1", "population=x", "population",
                           "population=0.5", "population=1e5"}) {
    const auto refused = variant(std::string("genetic+") + text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find("population=NUMBER"), std::string::npos)
        << refused.error().message;
  }
}

// A spread of scores comes from the ensemble, by a name that the table has.
TEST(PolicyVariant, UncertaintyComesFromAModelOfTheTable) {
  for (const char* how : {"ei", "ucb"}) {
    const auto uncertain = variant(std::string("annealing+acquisition=") + how);
    ASSERT_TRUE(uncertain.ok()) << uncertain.error().message;
    const std::vector<model::ModelEntry>& table = model::model_table();
    EXPECT_TRUE(std::any_of(table.begin(), table.end(), [&](const model::ModelEntry& entry) {
      return uncertain->learner.model == entry.name;
    })) << uncertain->learner.model;
  }
}

}  // namespace
}  // namespace tessera::app
