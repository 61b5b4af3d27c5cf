#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/search/model_scorer.h"
#include "tests/model/stub_model.h"
#include "tests/testing/xgboost.h"
#include "toy_space.h"

namespace tessera::search {
namespace {

bool builds_trees() { return tessera::testing::has_trees(model::make_model("gbt", {})); }

space::Space real_space(const std::string& spec) {
  const auto parsed = te::parse_op_spec(spec);
  EXPECT_TRUE(parsed.ok());
  const auto dag = te::make_dag(*parsed);
  EXPECT_TRUE(dag.ok());
  auto space = space::make_space(*dag, target::host());
  EXPECT_TRUE(space.ok());
  return std::move(*space);
}

std::vector<decide::Candidate> samples(const space::Space& space, int n, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<decide::Candidate> out;
  for (int i = 0; i < n; ++i) out.push_back(space.sample(rng));
  return out;
}

// A made-up time: far from a point of the decision vectors is slow.
double made_up_seconds(const space::Space& space, const decide::Candidate& c) {
  double sum = 1e-3;
  for (const float v : space.vector_of(c)) sum += 1e-3 * std::abs(static_cast<double>(v) - 2);
  return sum;
}

std::vector<Observation> observed(const space::Space& space, int n, std::uint64_t seed) {
  std::vector<Observation> out;
  for (const decide::Candidate& c : samples(space, n, seed)) {
    out.push_back({c, made_up_seconds(space, c), false});
  }
  return out;
}

double order_of(const space::Space& space, Scorer& scorer, std::uint64_t seed) {
  const std::vector<decide::Candidate> c = samples(space, 80, seed);
  const std::vector<float> scores = scorer.score(c);
  EXPECT_EQ(scores.size(), c.size());
  double right = 0, pairs = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double ratio = made_up_seconds(space, c[i]) / made_up_seconds(space, c[j]);
      if (std::abs(std::log(ratio)) < 0.02) continue;
      right += (ratio < 1) == (scores[i] > scores[j]) ? 1 : 0;
      pairs += 1;
    }
  }
  EXPECT_GT(pairs, 100);
  return right / pairs;
}

TEST(Learner, SharesOneModelOfProgramsAmongTasks) {
  if (!builds_trees()) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const space::Space a = real_space("matmul:M=64,N=96,K=64");
  const space::Space b = real_space("matmul:M=32,N=256,K=128");
  LearnerOptions options;
  options.background = false;
  auto learner = Learner::make(options);
  ASSERT_TRUE(learner.ok()) << learner.error().message;
  Scorer& first = (*learner)->add_task(a);
  Scorer& second = (*learner)->add_task(b);
  EXPECT_FALSE(first.ready());
  (*learner)->observe(first, observed(a, 150, 1));
  (*learner)->observe(second, observed(b, 150, 2));
  (*learner)->update();
  EXPECT_TRUE(first.ready() && second.ready());
  EXPECT_EQ((*learner)->state().fits, 1);
  EXPECT_EQ((*learner)->state().last_error, "");
  EXPECT_GT(order_of(a, first, 8), 0.75);
  EXPECT_GT(order_of(b, second, 9), 0.75);
}

TEST(Learner, FitsAgainOnlyWhenEnoughIsNew) {
  if (!builds_trees()) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const space::Space space = testing::make_toy_space(10);
  LearnerOptions options;
  options.features = "decisions";
  options.background = false;
  auto learner = Learner::make(options);
  ASSERT_TRUE(learner.ok());
  Scorer& scorer = (*learner)->add_task(space);
  const std::vector<Observation> all = observed(space, 300, 3);
  const std::span<const Observation> view = all;
  const auto fits_after = [&](std::size_t from, std::size_t count) {
    (*learner)->observe(scorer, view.subspan(from, count));
    (*learner)->update();
    return (*learner)->state().fits;
  };
  EXPECT_EQ(fits_after(0, 20), 0);
  EXPECT_EQ(fits_after(20, 10), 1);
  EXPECT_EQ(fits_after(30, 15), 1);
  EXPECT_EQ(fits_after(45, 1), 2);
  EXPECT_EQ(fits_after(46, 154), 3);
  EXPECT_EQ(fits_after(200, 39), 3);
  EXPECT_EQ(fits_after(239, 1), 4);
}

TEST(Learner, FitsInTheBackgroundWhileScoresComeFromTheOldModel) {
  if (!builds_trees()) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const space::Space space = testing::make_toy_space(10);
  LearnerOptions options;
  options.features = "decisions";
  options.threads = 2;
  auto learner = Learner::make(options);
  ASSERT_TRUE(learner.ok());
  Scorer& scorer = (*learner)->add_task(space);
  (*learner)->observe(scorer, observed(space, 60, 4));
  (*learner)->update();
  EXPECT_FALSE(scorer.ready()) << "taken over by update() or wait() only";
  (*learner)->wait();
  ASSERT_TRUE(scorer.ready());
  const std::vector<decide::Candidate> some = samples(space, 300, 5);
  const std::vector<float> before = scorer.score(some);
  (*learner)->observe(scorer, observed(space, 200, 6));
  (*learner)->update();
  EXPECT_EQ(scorer.score(some), before);
  (*learner)->wait();
  EXPECT_NE(scorer.score(some), before);
  EXPECT_EQ((*learner)->state().fits, 2);
  // Left running when it goes away.
  (*learner)->observe(scorer, observed(space, 200, 7));
  (*learner)->update();
}

TEST(Learner, ThreadsDoNotChangeScores) {
  if (!builds_trees()) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const space::Space space = real_space("matmul:M=64,N=96,K=64");
  std::vector<float> scores[2];
  for (int threads : {1, 2}) {
    LearnerOptions options;
    options.background = false;
    options.fit_limit_s = 0;  // a busy machine must not end one of the fits early
    options.threads = threads;
    auto learner = Learner::make(options);
    ASSERT_TRUE(learner.ok());
    Scorer& scorer = (*learner)->add_task(space);
    (*learner)->observe(scorer, observed(space, 40, 4));
    (*learner)->update();
    scores[threads - 1] = scorer.score(samples(space, 200, 5));
  }
  EXPECT_EQ(scores[0], scores[1]);
}

TEST(Learner, AnEnsembleTellsItsSpread) {
  if (!builds_trees()) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const space::Space space = testing::make_toy_space(10);
  LearnerOptions options;
  options.model = "gbt_ensemble";
  options.features = "decisions";
  options.background = false;
  auto learner = Learner::make(options);
  ASSERT_TRUE(learner.ok());
  Scorer& scorer = (*learner)->add_task(space);
  (*learner)->observe(scorer, observed(space, 60, 4));
  (*learner)->update();
  const std::vector<decide::Candidate> some = samples(space, 20, 5);
  const std::vector<float> spread = scorer.spread(some);
  ASSERT_EQ(spread.size(), some.size());
  EXPECT_GT(*std::max_element(spread.begin(), spread.end()), 0);
}

TEST(Learner, StartsFromASavedModel) {
  if (!builds_trees()) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const space::Space space = real_space("matmul:M=64,N=96,K=64");
  const std::string path = ::testing::TempDir() + "/learner_model.bin";
  LearnerOptions options;
  options.background = false;
  auto first = Learner::make(options);
  ASSERT_TRUE(first.ok());
  Scorer& trained = (*first)->add_task(space);
  EXPECT_FALSE((*first)->save(path).ok());
  (*first)->observe(trained, observed(space, 100, 1));
  (*first)->update();
  ASSERT_TRUE((*first)->save(path).ok());
  options.pretrained = {path};
  auto second = Learner::make(options);
  ASSERT_TRUE(second.ok()) << second.error().message;
  Scorer& scorer = (*second)->add_task(space);
  ASSERT_TRUE(scorer.ready());
  const std::vector<decide::Candidate> some = samples(space, 20, 5);
  EXPECT_EQ(scorer.score(some), trained.score(some));
  EXPECT_EQ((*second)->state().tasks_without_global, 0u);
  // The global model keeps its own features whatever the local one sees.
  options.features = "decisions";
  auto third = Learner::make(options);
  ASSERT_TRUE(third.ok()) << third.error().message;
  EXPECT_EQ((*third)->add_task(space).score(some), trained.score(some));
  std::filesystem::remove(path);
}

// Scores by the made-up times, or by the opposite.
class Oracle final : public model::testing::StubModel {
 public:
  explicit Oracle(double sign, float spread = 0) : sign_(sign), spread_(spread) {}
  std::vector<float> predict(const feature::FeatureSet& set) const override {
    std::vector<float> out;
    for (std::size_t i = 0; i < set.candidates(); ++i) {
      double sum = 1e-3;
      for (std::size_t c = 0; c < set.columns; ++c) {
        sum += 1e-3 * std::abs(static_cast<double>(set.values[i * set.columns + c]) - 2);
      }
      out.push_back(static_cast<float>(sign_ * 1e-2 / sum));
    }
    return out;
  }
  std::vector<float> spread(const feature::FeatureSet& set) const override {
    return std::vector<float>(spread_ > 0 ? set.candidates() : 0, spread_);
  }

 private:
  double sign_;
  float spread_;
};

// Observes in rounds, as a tuning does; returns how well the scorer orders afterwards.
double order_after(const space::Space& space, Learner& learner, Scorer& scorer, int rounds) {
  for (int r = 0; r < rounds; ++r) {
    learner.observe(scorer, observed(space, 16, 100 + static_cast<std::uint64_t>(r)));
    learner.update();
  }
  return scorer.ready() ? order_of(space, scorer, 77) : 0;
}

// Cannot judge anything.
class Broken final : public model::testing::StubModel {
 public:
  std::vector<float> predict(const feature::FeatureSet& set) const override {
    ++asked;
    return std::vector<float>(set.candidates(), std::numeric_limits<float>::quiet_NaN());
  }
  std::string last_error() const override { return asked > 0 ? "does not build" : ""; }

  mutable int asked = 0;
};

TEST(Learner, GoesOnWithoutAGlobalModelThatCannotJudge) {
  const space::Space space = testing::make_toy_space(10);
  LearnerOptions options;
  options.model = "random";
  options.features = "decisions";
  options.background = false;
  options.first_fit = 10'000;  // no local model
  const auto broken = std::make_shared<Broken>();
  options.global = broken;
  auto learner = Learner::make(options);
  ASSERT_TRUE(learner.ok());
  Scorer& scorer = (*learner)->add_task(space);
  EXPECT_EQ((*learner)->state().last_error, "");
  const std::vector<decide::Candidate> some = samples(space, 20, 5);
  const std::vector<float> scores = scorer.score(some);
  ASSERT_EQ(scores.size(), some.size());
  for (const float s : scores) EXPECT_EQ(s, std::numeric_limits<float>::lowest());
  EXPECT_EQ((*learner)->state().last_error, "does not build");
  EXPECT_TRUE(scorer.ready()) << "the same for the whole batch";
  (*learner)->observe(scorer, observed(space, 20, 6));
  EXPECT_FALSE(scorer.ready()) << "the policy works from measured times";
  EXPECT_EQ((*learner)->state().tasks_without_global, 1u);
  EXPECT_EQ(broken->asked, 1);
}

TEST(Learner, SpreadIsThatOfTheModelWhoseScoresAreUsed) {
  if (!builds_trees()) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const space::Space space = testing::make_toy_space(10);
  LearnerOptions options;
  options.model = "gbt_ensemble";
  options.features = "decisions";
  options.background = false;
  options.min_growth = 10'000;  // one fit
  const std::vector<decide::Candidate> some = samples(space, 40, 5);
  // The local model learns from times that are `misled`, or from true ones.
  const auto run = [&](bool misled, std::shared_ptr<const model::CostModel> global) {
    options.global = std::move(global);
    auto learner = Learner::make(options);
    EXPECT_TRUE(learner.ok());
    Scorer& scorer = (*learner)->add_task(space);
    std::vector<Observation> first = observed(space, 40, 1);
    for (Observation& o : first) o.seconds = misled ? 1e-4 / o.seconds : o.seconds;
    (*learner)->observe(scorer, first);
    (*learner)->update();
    order_after(space, **learner, scorer, 12);
    EXPECT_EQ((*learner)->state().fits, 1);
    return std::pair(scorer.score(some), scorer.spread(some));
  };
  const auto oracle = std::make_shared<Oracle>(1);
  const auto [scores, spread] = run(true, oracle);
  feature::FeatureSet set;
  set.columns = space.vector_of(some[0]).size();
  for (const decide::Candidate& c : some) set.add(space.vector_of(c));
  ASSERT_EQ(scores, oracle->predict(set)) << "the global model scores";
  EXPECT_TRUE(spread.empty()) << "that of the ensemble is of another unit";
  const auto [same, own] = run(true, std::make_shared<Oracle>(1, 0.25f));
  EXPECT_EQ(same, scores);
  EXPECT_EQ(own, std::vector<float>(some.size(), 0.25f));
  // A global model that is wrong leaves it to the ensemble.
  EXPECT_EQ(run(false, std::make_shared<Oracle>(-1)).second.size(), some.size());
}

TEST(Learner, ModelsThatJudgeTogetherTellASpreadFromTheFirstTrialOn) {
  const space::Space space = testing::make_toy_space(10);
  LearnerOptions options;
  options.model = "random";
  options.features = "decisions";
  options.background = false;
  const auto oracle = std::make_shared<Oracle>(1);
  const std::vector<decide::Candidate> some = samples(space, 40, 5);
  const auto run = [&](const std::vector<std::shared_ptr<const model::CostModel>>& members) {
    options.global = model::make_committee(members);
    auto learner = Learner::make(options);
    EXPECT_TRUE(learner.ok());
    Scorer& scorer = (*learner)->add_task(space);
    return std::pair(order_of(space, scorer, 8), scorer.spread(some));
  };
  const auto [order, agreed] = run({oracle, std::make_shared<Oracle>(50)});
  EXPECT_GT(order, 0.99);
  ASSERT_EQ(agreed.size(), some.size());
  for (const float s : agreed) EXPECT_NEAR(s, 0, 1e-3);
  const auto [split, doubt] = run({oracle, oracle, std::make_shared<Oracle>(-50)});
  EXPECT_GT(split, 0.99) << "two of three, whatever their units";
  EXPECT_GT(*std::max_element(doubt.begin(), doubt.end()), 0.5f);
}

TEST(Learner, KeepsAGoodGlobalModelAndDropsABadOne) {
  if (!builds_trees()) GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  const space::Space space = testing::make_toy_space(10);
  LearnerOptions options;
  options.features = "decisions";
  options.background = false;
  const auto run = [&](std::shared_ptr<const model::CostModel> global, std::size_t* dropped) {
    options.global = std::move(global);
    auto learner = Learner::make(options);
    EXPECT_TRUE(learner.ok());
    Scorer& scorer = (*learner)->add_task(space);
    EXPECT_EQ(scorer.ready(), options.global != nullptr) << "from the first trial on";
    const double order = order_after(space, **learner, scorer, 8);
    *dropped = (*learner)->state().tasks_without_global;
    return order;
  };
  std::size_t dropped = 0;
  const double alone = run(nullptr, &dropped);
  const double good = run(std::make_shared<Oracle>(1), &dropped);
  EXPECT_GT(good, 0.95);
  EXPECT_EQ(dropped, 0u);
  const double bad = run(std::make_shared<Oracle>(-1), &dropped);
  EXPECT_GT(bad, alone - 0.05) << "no worse than without";
}

TEST(Learner, IsNotLedByAGlobalModelThatIsWorseThanChance) {
  const space::Space space = testing::make_toy_space(10);
  LearnerOptions options;
  options.model = "random";
  options.features = "decisions";
  options.background = false;
  options.first_fit = 10'000;  // no local model yet
  options.global = std::make_shared<Oracle>(-1);
  auto learner = Learner::make(options);
  ASSERT_TRUE(learner.ok());
  Scorer& scorer = (*learner)->add_task(space);
  EXPECT_TRUE(scorer.ready());
  (*learner)->observe(scorer, observed(space, 60, 3));
  EXPECT_FALSE(scorer.ready()) << "the policy works from measured times";
  EXPECT_EQ((*learner)->state().tasks_without_global, 1u);
}

TEST(Learner, RefusesUnknownNames) {
  LearnerOptions options;
  options.features = "pixels";
  EXPECT_FALSE(Learner::make(options).ok());
  options.features = "statement";
  options.model = "oracle";
  EXPECT_FALSE(Learner::make(options).ok());
  options.model = "random";
  options.pretrained = {"/nonexistent/model"};
  EXPECT_EQ(Learner::make(options).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace tessera::search
