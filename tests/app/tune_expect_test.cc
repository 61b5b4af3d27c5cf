// Which tasks get the first rounds when a trained model promises something.
#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/app/tune/tune.h"
#include "tessera/frontend/task/task.h"
#include "tessera/lang/te/op_spec.h"
#include "tests/app/fake_measurer.h"
#include "tests/model/stub_model.h"

namespace tessera::app {
namespace {

constexpr const char* kHeavy = "matmul:M=64,N=64,K=64";
constexpr const char* kLight = "softmax:R=8,C=64";

// The vector that stands for the default of the operation.
std::vector<float> default_of(const std::string& spec) {
  const auto problem = make_tune_problem({{spec, true, {}}}, {});
  target::Target one_core = target::host();  // as one thread is tuned for
  one_core.cores = 1;
  const auto space = space::make_space(problem->tasks[0].task.dag, one_core);
  return space->vector_of(space->preferred());
}

// Likes small sums; predicts that all but that default take a quarter of its time, and nothing of
// tasks whose vectors have another length.
class Promise final : public model::testing::StubModel {
 public:
  explicit Promise(std::vector<float> of) : default_(std::move(of)) {}
  std::vector<float> predict(const feature::FeatureSet& set) const override {
    std::vector<float> out(set.candidates(), 0);
    for (std::size_t i = 0; i < set.values.size(); ++i) out[i / set.columns] -= set.values[i];
    return out;
  }
  std::vector<float> log_time(const feature::FeatureSet& set) const override {
    if (default_.empty()) return {};
    std::vector<float> out(set.candidates(), 0);
    for (std::size_t c = 0; c < out.size() && set.columns == default_.size(); ++c) {
      const auto row = set.values.begin() + static_cast<std::ptrdiff_t>(c * set.columns);
      out[c] = std::equal(default_.begin(), default_.end(), row) ? 0.f : -2.f;
    }
    return out;
  }

 private:
  std::vector<float> default_;  // empty: tells no times
};

std::shared_ptr<const model::CostModel> promise(std::vector<float> of) {
  return std::make_shared<Promise>(std::move(of));
}

using Both = std::pair<std::int64_t, std::int64_t>;  // of the heavy and the light task

std::string heavy_key() {
  return task::key_of(te::make_dag(te::parse_op_spec(kHeavy).value()).value());
}

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
    m->samples_s = {t.task == heavy_key() ? 2e-3 : 1e-3};
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
  const std::vector<float> heavy = default_of(kHeavy), light = default_of(kLight);
  ASSERT_NE(heavy.size(), light.size());
  EXPECT_EQ(first(1, nullptr), Both(1, 0)) << "the heaviest first";
  EXPECT_EQ(first(2, nullptr), Both(1, 1)) << "then the other";
  EXPECT_EQ(first(2, promise({})), Both(1, 1)) << "it tells no times";
  EXPECT_EQ(first(2, promise(light)), Both(0, 2));
  EXPECT_EQ(first(2, promise(heavy)), Both(2, 0));
  // What is promised and does not come is believed less and less.
  EXPECT_GT(first(12, promise(light)).first, 0);
}

// Without a model a round is also there to learn from; with one, two candidates are worth asking.
TEST(TuneExpectation, FewTrialsAreSharedOutWhenAModelIsThere) {
  EXPECT_EQ(trials_of(6, 0, nullptr), Both(6, 0));
  const Both shared = trials_of(6, 0, promise({}));
  EXPECT_GE(shared.first, 2);
  EXPECT_GE(shared.second, 2);
}

}  // namespace
}  // namespace tessera::app
