// A machine of a fleet that tells what another does not measure: what a tuning makes of it.
#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tessera/app/tune/tune.h"
#include "tests/app/read_records.h"

namespace tessera::app {
namespace {

constexpr double kDefault = 1e-3, kLie = 1e-6;
constexpr std::int64_t kLiar = 1, kHonest = 2;

// Two machines take turns; the first one that compares, the honest one, finds out.
class LiarAndHonest final : public measure::Measurer {
 public:
  LiarAndHonest(std::map<std::string, int>* lied_of, bool liar_first)
      : lied_of_(lied_of), calls_(liar_first ? 0 : 1) {}

  void submit(std::vector<measure::Trial> trials) override {
    std::move(trials.begin(), trials.end(), std::back_inserter(queue_));
  }
  std::vector<measure::Measurement> collect(double) override {
    if (queue_.empty()) return {};
    const bool lies = !found_out_ && calls_++ % 2 == 0;
    std::vector<measure::Measurement> out = {answer(queue_.front(), lies ? kLiar : kHonest)};
    queue_.erase(queue_.begin());
    return out;
  }
  std::size_t pending() const override { return queue_.size(); }
  void cancel() override { queue_.clear(); }
  std::vector<measure::Measurement> compare(const std::vector<measure::Trial>& trials) override {
    std::vector<measure::Measurement> out;
    for (const measure::Trial& t : trials) out.push_back(answer(t, kHonest));
    if (!std::exchange(found_out_, true)) doubted_ = {kLiar};
    return out;
  }
  measure::MachineState machine() const override { return {}; }
  std::vector<std::int64_t> take_doubted() override { return std::exchange(doubted_, {}); }

 private:
  measure::Measurement answer(const measure::Trial& trial, std::int64_t machine) {
    const std::string steps = schedule::to_text(trial.steps);
    if (default_.empty()) default_ = steps;
    measure::Measurement m;
    m.id = trial.id;
    m.machine = machine;
    int& lies = (*lied_of_)[steps];
    if (machine == kLiar) ++lies;
    if (machine == kHonest) lies = 0;
    m.samples_s.assign(8, machine == kLiar ? kLie : steps == default_ ? kDefault : 0.8 * kDefault);
    return m;
  }

  std::map<std::string, int>* lied_of_;  // by schedule: since an honest time
  std::vector<measure::Trial> queue_;
  std::string default_;
  int calls_;
  bool found_out_ = false;
  std::vector<std::int64_t> doubted_;
};

// The default is the first trial: where the liar measures it nothing seems faster, and only the
// finals find it out.
TEST(Doubted, WhatAMachineToldThatLiesIsForgottenAndMeasuredAgain) {
  for (const bool liar_first : {false, true}) {
    TuneOptions options;
    options.subjects = {{"matmul:M=32,N=24,K=16", true, {}}};
    options.target = target::host();
    options.policy = "random";
    options.learner.model = "none";
    options.trials = 60;
    options.batch = 4;
    options.database = ::testing::TempDir() + "/doubted.db";
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(options.database + end);
    std::map<std::string, int> lied_of;
    options.start_measurer = [&](const auto&...) -> Result<std::unique_ptr<measure::Measurer>> {
      return std::unique_ptr<measure::Measurer>(
          std::make_unique<LiarAndHonest>(&lied_of, liar_first));
    };
    const Result<TuneResult> result = tune(options, {});
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_DOUBLE_EQ(result->tasks[0].before_s, kDefault);
    EXPECT_DOUBLE_EQ(result->tasks[0].after_s, 0.8 * kDefault);
    int open = 0;
    for (const auto& [steps, lies] : lied_of) open += lies > 0 ? 1 : 0;
    if (liar_first) {
      EXPECT_GT(open, 0) << "the fault did not happen";
    } else {
      EXPECT_EQ(open, 0) << "of what was only lied about there is no time";
    }
    const std::vector<record::Record> records = read_records(options.database);
    EXPECT_GT(records.size(), 20u);
    for (const record::Record& r : records) EXPECT_GT(r.seconds, 100 * kLie) << r.trial;
  }
}

}  // namespace
}  // namespace tessera::app
