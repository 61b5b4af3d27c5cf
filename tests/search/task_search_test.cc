#include "tessera/search/task_search.h"

#include <gtest/gtest.h>

#include "tessera/learn/model/cost_model.h"
#include "tests/model/stub_model.h"
#include "toy_space.h"

namespace tessera::search {
namespace {

using measure::Outcome;
using testing::make_toy_space;
using testing::toy_seconds;

TrialResult measure_toy(const space::Space& space, const decide::Candidate& c) {
  const double seconds = toy_seconds(space, c);
  return {c, seconds > 0 ? Outcome::kOk : Outcome::kRunError, seconds};
}

record::Record record_of(const space::Space& space, const TrialResult& r) {
  record::Record out;
  out.candidate = space.to_text(r.candidate);
  out.outcome = measure::to_text(r.outcome);
  out.seconds = r.seconds;
  return out;
}

TEST(TaskSearch, KeepsTheBestAndCountsFailures) {
  const space::Space space = make_toy_space(6);
  TaskSearch search(space, **find_policy("random"), {}, nullptr);
  EXPECT_EQ(search.best_seconds(), 0);
  EXPECT_FALSE(search.best().has_value());
  const auto c = search.propose(6);
  ASSERT_EQ(c.size(), 6u);
  const std::vector<TrialResult> results = {
      {c[0], Outcome::kOk, 3},         {c[1], Outcome::kOk, 2},
      {c[2], Outcome::kCensored, 1},   {c[3], Outcome::kWrongResult, 0},
      {c[4], Outcome::kWorkerLost, 0}, {c[5], Outcome::kOk, 5}};
  search.observe(results);
  EXPECT_EQ(search.best_seconds(), 2);
  EXPECT_EQ(search.best()->candidate, c[1]);
  EXPECT_EQ(search.best(2).size(), 2u);
  EXPECT_EQ(search.best(2)[1].candidate, c[0]);
  EXPECT_EQ(search.trials(), 5);
  EXPECT_EQ(search.failures(), 1);
  EXPECT_EQ(search.outcomes()[static_cast<std::size_t>(Outcome::kWorkerLost)], 1);
  // A lost worker says nothing about its candidate.
  EXPECT_EQ(search.propose(1), std::vector<decide::Candidate>{c[4]});
}

// Likes large sums of decisions, and predicts that they are faster.
class Predictor final : public model::testing::StubModel {
 public:
  explicit Predictor(float slope) : slope_(slope) {}
  std::vector<float> predict(const feature::FeatureSet& set) const override { return sums(set); }
  std::vector<float> log_time(const feature::FeatureSet& set) const override {
    if (slope_ == 0) return {};
    std::vector<float> out = sums(set);
    for (float& s : out) s *= -slope_;
    return out;
  }

 private:
  static std::vector<float> sums(const feature::FeatureSet& set) {
    std::vector<float> out(set.candidates(), 0);
    for (std::size_t i = 0; i < set.values.size(); ++i) out[i / set.columns] += set.values[i];
    return out;
  }
  float slope_;
};

TEST(TaskSearch, TellsWhatAModelExpectsOfTheFirstRounds) {
  const space::Space space = make_toy_space(10);
  LearnerOptions options;
  options.model = "random";
  options.features = "decisions";
  options.background = false;
  options.first_fit = 10'000;
  const auto expected = [&](std::shared_ptr<const model::CostModel> global, double bad_s) {
    options.global = std::move(global);
    const auto learner = Learner::make(options);
    EXPECT_TRUE(learner.ok());
    TaskSearch search(space, **find_policy("evolutionary"), {}, learner->get());
    if (bad_s > 0) {
      // The better the score, the slower.
      Rng rng(3);
      std::vector<TrialResult> results;
      for (int i = 0; i < 64; ++i) {
        const decide::Candidate c = space.sample(rng);
        double sum = 0;
        for (const float v : space.vector_of(c)) sum += static_cast<double>(v);
        results.push_back({c, Outcome::kOk, bad_s * (1 + sum)});
      }
      search.observe(results);
      EXPECT_FALSE(search.believes_global());
    }
    return search.expected_share(7);
  };
  const double small = expected(std::make_shared<Predictor>(0.01f), 0);
  const double large = expected(std::make_shared<Predictor>(0.1f), 0);
  EXPECT_LT(small, 1);
  EXPECT_GT(small, 0.5);
  EXPECT_LT(large, small);
  EXPECT_GT(large, 0);
  EXPECT_EQ(expected(std::make_shared<Predictor>(0.1f), 0), large) << "the same seed";
  EXPECT_EQ(expected(std::make_shared<Predictor>(-0.1f), 0), 1) << "slower than the default";
  EXPECT_EQ(expected(std::make_shared<Predictor>(0.f), 0), 1) << "tells no times";
  EXPECT_EQ(expected(nullptr, 0), 1);
  EXPECT_EQ(expected(std::make_shared<Predictor>(0.1f), 1), 1) << "not believed";
}

TEST(TaskSearch, SaysWhenTheSpaceIsExhausted) {
  const space::Space space = make_toy_space(2);
  TaskSearch search(space, **find_policy("evolutionary"), {}, nullptr);
  const auto legal = static_cast<std::size_t>(*space.count_legal(1000));
  EXPECT_EQ(search.propose(legal).size(), legal);
  EXPECT_FALSE(search.exhausted());
  EXPECT_TRUE(search.propose(1).empty());
  EXPECT_TRUE(search.exhausted());
}

TEST(TaskSearch, ResumesFromRecords) {
  const space::Space space = make_toy_space(8);
  std::vector<record::Record> records;
  TaskSearch first(space, **find_policy("local"), {}, nullptr);
  for (int round = 0; round < 4; ++round) {
    std::vector<TrialResult> results;
    for (const auto& c : first.propose(16)) results.push_back(measure_toy(space, c));
    for (const TrialResult& r : results) records.push_back(record_of(space, r));
    first.observe(results);
  }
  TaskSearch second(space, **find_policy("local"), {}, nullptr);
  std::vector<TrialResult> known;
  for (const record::Record& r : records) {
    ASSERT_TRUE(second.trial_of(r)) << r.candidate;
    known.push_back(*second.trial_of(r));
  }
  second.replay(known);
  EXPECT_EQ(second.replayed(), 64);
  EXPECT_EQ(second.trials(), first.trials());
  EXPECT_EQ(second.best()->candidate, first.best()->candidate);
  EXPECT_EQ(second.failures(), first.failures());
  for (const auto& c : second.propose(32)) {
    const std::string text = space.to_text(c);
    for (const record::Record& r : records) EXPECT_NE(r.candidate, text);
  }
}

TEST(TaskSearch, RecordsOfAnotherSpaceAreLeftAlone) {
  const space::Space space = make_toy_space(4);
  TaskSearch search(space, **find_policy("random"), {}, nullptr);
  record::Record good = record_of(space, {space.preferred(), Outcome::kOk, 1});
  record::Record bad = good;
  bad.candidate = "third: d0=1";
  EXPECT_FALSE(search.trial_of(bad));
  bad = good;
  bad.candidate = "first: d0=999";
  EXPECT_FALSE(search.trial_of(bad));
  bad = good;
  bad.outcome = "exploded";
  EXPECT_FALSE(search.trial_of(bad));
  bad = good;
  bad.format = "ansor";
  EXPECT_FALSE(search.trial_of(bad));
  bad = good;
  bad.outcome = "worker_lost";
  EXPECT_FALSE(search.trial_of(bad)) << "says nothing about the candidate";
  EXPECT_EQ(search.trials(), 0);
  const std::optional<TrialResult> known = search.trial_of(good);
  ASSERT_TRUE(known);
  search.replay({&*known, 1});
  EXPECT_EQ(search.best_seconds(), 1);
}

TEST(TaskSearch, ATimeTakenWithMoreCareReplacesTheFirst) {
  const space::Space space = make_toy_space(6);
  TaskSearch search(space, **find_policy("random"), {}, nullptr);
  const auto c = search.propose(3);
  const std::vector<TrialResult> earlier = {{c[0], Outcome::kOk, 1}};
  const std::vector<TrialResult> now = {{c[1], Outcome::kOk, 2}, {c[2], Outcome::kOk, 3}};
  search.replay(earlier);
  search.observe(now);
  search.correct(c[0], 5);
  EXPECT_EQ(search.best()->candidate, c[1]);
  EXPECT_EQ(search.best(3).back().candidate, c[0]);
  EXPECT_EQ(search.best(3).back().seconds, 5);
  EXPECT_EQ(search.session_best_seconds(), 2) << "the other one was not measured here";
  search.correct(c[1], 4);
  EXPECT_EQ(search.best_seconds(), 3);
  EXPECT_EQ(search.session_best_seconds(), 3);
  EXPECT_EQ(search.trials(), 3);
}

// Counts how often it is asked.
class Asked final : public model::testing::StubModel {
 public:
  std::vector<float> predict(const feature::FeatureSet& set) const override {
    ++calls;
    candidates += set.candidates();
    return std::vector<float>(set.candidates(), 0);
  }
  mutable std::size_t calls = 0, candidates = 0;
};

TEST(TaskSearch, ManyRecordsAreJudgedInOneBatch) {
  const space::Space space = make_toy_space(10);
  const auto global = std::make_shared<Asked>();
  LearnerOptions options;
  options.model = "random";
  options.features = "decisions";
  options.background = false;
  options.first_fit = 10'000;
  options.global = global;
  const auto learner = Learner::make(options);
  ASSERT_TRUE(learner.ok());
  TaskSearch search(space, **find_policy("evolutionary"), {}, learner->get());
  Rng rng(5);
  std::vector<TrialResult> known;
  for (int i = 0; i < 512; ++i) known.push_back({space.sample(rng), Outcome::kOk, 1.0 + i});
  search.replay(known);
  EXPECT_EQ(global->calls, 1u);
  EXPECT_EQ(search.replayed(), 512);
  EXPECT_EQ((*learner)->state().observations, 512u);
  search.replay(known, /*teach=*/false);
  EXPECT_EQ((*learner)->state().observations, 512u);
  EXPECT_EQ(search.trials(), 1024);
}

TEST(TaskSearch, BatchesAndSingleTrialsGiveTheSameOrder) {
  const space::Space space = make_toy_space(10);
  TaskSearch one(space, **find_policy("local"), {}, nullptr);
  TaskSearch many(space, **find_policy("local"), {}, nullptr);
  Rng rng(9);
  std::vector<TrialResult> known;
  // Few different times, so that many are ties.
  for (int i = 0; i < 200; ++i) known.push_back({space.sample(rng), Outcome::kOk, 1.0 + i % 7});
  for (const TrialResult& r : known) one.replay({&r, 1});
  many.replay(std::span(known).first(120));
  many.replay(std::span(known).subspan(120));
  const auto a = one.best(200), b = many.best(200);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].candidate, b[i].candidate) << i;
  EXPECT_EQ(one.propose(16), many.propose(16));
}

TEST(TaskSearch, FeedsTheModelOfTheLearner) {
  const space::Space space = make_toy_space(8);
  LearnerOptions options;
  options.model = model::make_model("gbt", {}).ok() ? "gbt" : "random";
  options.features = "decisions";
  options.background = false;
  auto learner = Learner::make(options);
  ASSERT_TRUE(learner.ok());
  TaskSearch search(space, **find_policy("evolutionary"), {}, learner->get());
  for (int round = 0; round < 3; ++round) {
    std::vector<TrialResult> results;
    for (const auto& c : search.propose(16)) results.push_back(measure_toy(space, c));
    search.observe(results);
    (*learner)->update();
  }
  EXPECT_EQ((*learner)->state().observations, 48u);
  EXPECT_GE((*learner)->state().fits, 1);
  EXPECT_GT((*learner)->state().scored, 0);
}

}  // namespace
}  // namespace tessera::search
