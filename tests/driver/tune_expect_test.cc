// Which tasks get the first rounds when a trained model promises something.
#include <map>

#include <gtest/gtest.h>

#include "tessera/driver/tune.h"
#include "tests/driver/fake_measurer.h"
#include "tests/model/stub_model.h"

namespace tessera::driver {
namespace {

constexpr const char* kHeavy = "matmul:M=64,N=64,K=64";
constexpr const char* kLight = "softmax:R=8,C=64";

// Length of the vectors that stand for candidates of the operation.
std::size_t columns_of(const std::string& spec) {
  const auto problem = make_tune_problem({{spec, true, {}}}, {});
  const auto space = space::make_space(problem->tasks[0].task.dag, target::host());
  return space->vector_of(space->preferred()).size();
}

// Likes small sums; predicts that they are faster, on the task with vectors of that length alone.
class Promise final : public model::testing::StubModel {
 public:
  explicit Promise(std::size_t columns) : columns_(columns) {}
  std::vector<float> predict(const feature::FeatureSet& set) const override {
    return sums(set, -1);
  }
  std::vector<float> log_time(const feature::FeatureSet& set) const override {
    return columns_ == 0 ? std::vector<float>() : sums(set, set.columns == columns_ ? 1.f : 0.f);
  }

 private:
  static std::vector<float> sums(const feature::FeatureSet& set, float factor) {
    std::vector<float> out(set.candidates(), 0);
    for (std::size_t i = 0; i < set.values.size(); ++i) {
      out[i / set.columns] += factor * set.values[i];
    }
    return out;
  }
  std::size_t columns_;  // 0: tells no times
};

using Both = std::pair<std::int64_t, std::int64_t>;  // of the heavy and the light task

// Trials of each, their defaults left out. `batch` 0: as many a round as the session thinks right.
Both trials_of(std::int64_t trials, std::size_t batch,
               std::shared_ptr<const model::CostModel> global) {
  TuneOptions options;
  options.subjects = {{kHeavy, true, {}}, {kLight, true, {}}};
  options.target = target::host();
  options.learner.model = "random";
  options.learner.features = "decisions";
  options.learner.background = false;
  options.learner.first_fit = 10'000;
  options.learner.global = std::move(global);
  options.batch = batch;
  options.trials = 2 + trials;
  const auto answer = [](const measure::Trial& t, bool, measure::Measurement* m) {
    m->samples_s = {t.task == 0 ? 2e-3 : 1e-3};
  };
  use_answers(answer, &options);
  const Result<TuneResult> result = tune(options, {});
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  Both out;
  for (const TaskReport& t : result->tasks) {
    (t.before_s > 1.5e-3 ? out.first : out.second) = t.trials - 1;
  }
  return out;
}

// Rounds of each among the first `rounds`.
Both first(std::int64_t rounds, std::shared_ptr<const model::CostModel> global) {
  const Both trials = trials_of(8 * rounds, 8, std::move(global));
  return {trials.first / 8, trials.second / 8};
}

TEST(TuneExpectation, FirstRoundsGoWhereTheModelPromisesMost) {
  const std::size_t heavy = columns_of(kHeavy), light = columns_of(kLight);
  ASSERT_NE(heavy, light);
  EXPECT_EQ(first(1, nullptr), Both(1, 0)) << "the heaviest first";
  EXPECT_EQ(first(2, nullptr), Both(1, 1)) << "then the other";
  EXPECT_EQ(first(2, std::make_shared<Promise>(0)), Both(1, 1)) << "it tells no times";
  EXPECT_EQ(first(2, std::make_shared<Promise>(light)), Both(0, 2));
  EXPECT_EQ(first(2, std::make_shared<Promise>(heavy)), Both(2, 0));
  // What is promised and does not come is believed less and less.
  EXPECT_GT(first(12, std::make_shared<Promise>(light)).first, 0);
}

// Without a model a round is also there to learn from; with one, two candidates are worth asking.
TEST(TuneExpectation, FewTrialsAreSharedOutWhenAModelIsThere) {
  EXPECT_EQ(trials_of(6, 0, nullptr), Both(6, 0));
  const Both shared = trials_of(6, 0, std::make_shared<Promise>(0));
  EXPECT_GE(shared.first, 2);
  EXPECT_GE(shared.second, 2);
}

}  // namespace
}  // namespace tessera::driver
