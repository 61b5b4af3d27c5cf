#include "tessera/search/policy.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include <gtest/gtest.h>

#include "tessera/learn/model/cost_model.h"
#include "tests/testing/xgboost.h"
#include "toy_space.h"

namespace tessera::search {
namespace {

using testing::make_toy_space;
using testing::run_toy;
using testing::toy_seconds;
using testing::ToyOptions;
using testing::ToyRun;

// "gbt" where this build has it; a guided policy without a model is a test of its fallback.
std::string guide(const std::string& name = "gbt") {
  return tessera::testing::has_trees(model::make_model(name, {})) ? name : "";
}

ToyOptions options_for(const std::string& policy, std::size_t trials, std::uint64_t seed = 1) {
  ToyOptions out;
  out.policy = policy;
  out.trials = trials;
  out.options.seed = seed;
  if ((*find_policy(policy))->uses_model) out.model = guide();
  return out;
}

// Geometric mean of the best after all trials, over some seeds.
double mean_best(const space::Space& space, ToyOptions options) {
  double logs = 0;
  const int seeds = 3;
  for (int s = 1; s <= seeds; ++s) {
    options.options.seed = static_cast<std::uint64_t>(s);
    logs += std::log(run_toy(space, options).best()) / seeds;
  }
  return std::exp(logs);
}

class EachPolicy : public ::testing::TestWithParam<const char*> {};

TEST_P(EachPolicy, SameSeedSameProposals) {
  const space::Space space = make_toy_space(8);
  const ToyRun a = run_toy(space, options_for(GetParam(), 96, 5));
  const ToyRun b = run_toy(space, options_for(GetParam(), 96, 5));
  EXPECT_EQ(a.proposed, b.proposed);
  ASSERT_EQ(a.proposed.size(), 96u);
  if (std::string(GetParam()) != "grid") {
    EXPECT_NE(a.proposed, run_toy(space, options_for(GetParam(), 96, 6)).proposed);
  }
}

TEST_P(EachPolicy, ProposesLegalCandidatesAndNoneTwice) {
  const space::Space space = make_toy_space(8);
  const ToyRun run = run_toy(space, options_for(GetParam(), 200));
  std::unordered_set<decide::Candidate, decide::CandidateHash> seen;
  for (const decide::Candidate& c : run.proposed) {
    EXPECT_TRUE(space.check(c).ok());
    EXPECT_TRUE(seen.insert(c).second);
  }
  EXPECT_EQ(run.proposed.size(), 200u);
}

TEST_P(EachPolicy, ExhaustsASmallSpaceAndFindsItsOptimum) {
  const space::Space space = make_toy_space(2);
  const auto legal = space.count_legal(1000);
  ASSERT_TRUE(legal.has_value());
  const ToyRun run = run_toy(space, options_for(GetParam(), 1000));
  EXPECT_EQ(run.proposed.size(), static_cast<std::size_t>(*legal));
  EXPECT_DOUBLE_EQ(run.best(), 1);
}

TEST_P(EachPolicy, DoesNotProposeWhatItWasToldOf) {
  const space::Space space = make_toy_space(2);
  const auto entry = find_policy(GetParam());
  const auto policy = (*entry)->make(space, no_scorer(), {});
  Rng rng(3);
  std::vector<Observation> known;
  for (int i = 0; i < 10; ++i) known.push_back({space.sample(rng), 1.0 + i, i % 3 == 0});
  policy->observe(known);
  for (const decide::Candidate& c : policy->propose(1000)) {
    for (const Observation& o : known) EXPECT_NE(c, o.candidate);
  }
  EXPECT_TRUE(policy->propose(3).empty());
  EXPECT_TRUE(policy->propose(0).empty());
}

TEST_P(EachPolicy, SurvivesNothingButFailures) {
  const space::Space space = make_toy_space(6);
  const auto policy = (*find_policy(GetParam()))->make(space, no_scorer(), {});
  for (int round = 0; round < 12; ++round) {
    std::vector<Observation> failed;
    for (const decide::Candidate& c : policy->propose(16)) failed.push_back({c, 0, false});
    EXPECT_EQ(failed.size(), 16u);
    policy->observe(failed);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachPolicy,
                         ::testing::Values("random", "grid", "genetic", "annealing", "evolutionary",
                                           "cut", "lm", "local", "exec"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Policies, TheListAboveIsTheTable) { EXPECT_EQ(policy_table().size(), 9u); }

TEST(Policies, UnknownNamesAreAnsweredWithTheList) {
  EXPECT_STREQ(find_policy("evolution").value()->name, "evolutionary");
  const auto found = find_policy("evolutonary");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("did you mean 'evolutionary'"), std::string::npos);
  EXPECT_NE(found.error().message.find("annealing"), std::string::npos);
}

TEST(Policies, InformedOnesStartWithThePreferredCandidate) {
  const space::Space space = make_toy_space(8);
  for (const char* name : {"genetic", "annealing", "evolutionary", "local"}) {
    const auto policy = (*find_policy(name))->make(space, no_scorer(), {});
    const auto batch = policy->propose(8);
    EXPECT_NE(std::find(batch.begin(), batch.end(), space.preferred()), batch.end()) << name;
  }
}

TEST(Policies, WithoutAModelMeasuredTimesStillBeatRandom) {
  const space::Space space = make_toy_space(10);
  const double random = mean_best(space, options_for("random", 300));
  for (const char* name : {"local", "genetic"}) {
    EXPECT_LT(mean_best(space, options_for(name, 300)), 0.95 * random) << name;
  }
  ToyOptions unguided = options_for("evolutionary", 300);
  unguided.model.clear();
  EXPECT_LT(mean_best(space, unguided), 0.9 * random);
}

TEST(Policies, GuidedOnesFindTheOptimumRegionAndBeatRandomInAThirdOfTheTrials) {
  if (guide().empty()) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const space::Space space = make_toy_space(10);
  const double random = mean_best(space, options_for("random", 600));
  for (const char* name : {"evolutionary", "annealing"}) {
    for (const char* objective : {"rank", "regression"}) {
      ToyOptions options = options_for(name, 200);
      options.objective = objective;
      const double guided = mean_best(space, options);
      EXPECT_LT(guided, random) << name << " " << objective;
      EXPECT_LT(guided, 1.2) << name << " " << objective;
    }
  }
}

TEST(Policies, DiversityAndUncertaintyAreOptionsThatWork) {
  const space::Space space = make_toy_space(10);
  if (guide().empty()) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const double random = mean_best(space, options_for("random", 160));
  for (const char* name : {"evolutionary", "annealing"}) {
    ToyOptions diverse = options_for(name, 160);
    diverse.options.diversity = 1;
    EXPECT_LT(mean_best(space, diverse), random) << name;
  }
  for (const char* acquisition : {"ei", "ucb"}) {
    ToyOptions options = options_for("annealing", 160);
    options.model = "gbt_ensemble";
    options.objective = "regression";
    options.options.acquisition = acquisition;
    EXPECT_LT(mean_best(space, options), random) << acquisition;
  }
}

}  // namespace
}  // namespace tessera::search
