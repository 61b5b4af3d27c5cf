// Collecting records: what is refused, what counts, what an error leaves.
#include "tessera/app/collect/collect.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "tessera/app/collect/candidate_sampler.h"
#include "tests/app/read_records.h"
#include "tests/testing/devices.h"

namespace tessera::app {
namespace {

class Collect : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    options_.database = ::testing::TempDir() + "/collect_" + test->name() + ".db";
    for (const char* end : {"", "-wal", "-shm"}) {
      std::filesystem::remove(options_.database + end);
    }
    options_.subjects = {{"matmul:M=32,N=24,K=16", true, {}}};
    options_.target = target::host();
    options_.measure.trial_limit_s = 0.01;
    options_.measure.build_workers = 1;
    options_.per_task = 6;
    options_.round = 4;
  }

  // Candidates and trials of all records, each of them once.
  void expect_records(std::size_t count) const {
    std::set<std::string> candidates;
    std::set<std::int64_t> trials;
    for (const record::Record& r : read_records(options_.database)) {
      candidates.insert(r.candidate);
      trials.insert(r.trial);
    }
    EXPECT_EQ(candidates.size(), count);
    ASSERT_EQ(trials.size(), count);
    EXPECT_EQ(*trials.begin(), 0);
    EXPECT_EQ(*trials.rbegin(), static_cast<std::int64_t>(count) - 1);
  }

  std::string last_state() const {
    const auto database = record::Database::open_read_only(options_.database);
    return database.ok() ? database->sessions()->back().state : "no database";
  }

  CollectOptions options_;
};

TEST_F(Collect, ADatabaseThatCannotBeHadIsNamed) {
  options_.database = "/no/such/folder/a.db";
  const Result<CollectResult> done = collect(options_, {});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
  const std::size_t at = done.error().message.find(options_.database);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(done.error().message.find(options_.database, at + 1), std::string::npos);
}

TEST_F(Collect, GoesOnWhateverNumberOfCoresTheMachineHadThen) {
  options_.target.cores = 1;
  ASSERT_TRUE(collect(options_, {}).ok());
  options_.target.cores = 64;
  options_.per_task = 8;
  const Result<CollectResult> more = collect(options_, {});
  ASSERT_TRUE(more.ok()) << more.error().message;
  EXPECT_EQ(more->earlier, 6);
  // Another processor's times are not this one's.
  options_.target.cpu = options_.target.arch == target::Arch::kAArch64 ? "generic" : "x86-64";
  options_.per_task = 2;
  const Result<CollectResult> foreign = collect(options_, {});
  ASSERT_TRUE(foreign.ok()) << foreign.error().message;
  EXPECT_EQ(foreign->earlier, 0);
}

TEST_F(Collect, GoesOnWithOtherCandidates) {
  const auto first = collect(options_, {});
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->records, 6);
  EXPECT_GT(first->build_s, 0);
  EXPECT_GT(first->run_s, 0);
  EXPECT_GE(first->elapsed_s, first->prepared_s + first->draw_s);
  options_.per_task = 14;
  const auto second = collect(options_, {});
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->earlier, 6);
  EXPECT_EQ(second->records, 8);
  EXPECT_EQ(second->stopped_by, "done");
  expect_records(14);
  EXPECT_EQ(last_state(), "done");
}

TEST_F(Collect, GoesOnWithTheTasksThatHaveTheFewest) {
  ASSERT_TRUE(collect(options_, {}).ok());
  options_.subjects.push_back({"softmax:R=48,C=40", true, {}});
  options_.per_task = 8;
  options_.round = 2;
  std::vector<std::string> tasks;
  CollectCallbacks callbacks;
  callbacks.progress = [&](const CollectProgress& p) { tasks.push_back(p.task); };
  const auto done = collect(options_, callbacks);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->earlier, 6);
  ASSERT_EQ(tasks.size(), 10u);
  // Candidates are finished in another order than they are begun in, but not by half of them.
  EXPECT_GE(std::count(tasks.begin(), tasks.begin() + 5, "softmax"), 3);
}

// Those of much code are drawn less often; as many are measured all the same, the default first.
TEST_F(Collect, MeasuresAsManyOnADevice) {
  const Result<target::Target> device = measure::ask_target("opencl");
  if (!testing::has_device("opencl", device)) GTEST_SKIP() << device.error().message;
  options_.target = *device;
  options_.subjects = {{"matmul:M=64,N=64,K=64", true, {}}};
  const Result<CollectResult> done = collect(options_, {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->records, 6);
  expect_records(6);
  const SampleScope scope{.subjects = options_.subjects, .target = options_.target};
  const Result<Samplers> samplers = make_samplers(scope);
  ASSERT_TRUE(samplers.ok());
  const space::Space& space = samplers->samplers.at(0)->space();
  const std::string preferred = space.to_text(space.preferred());
  EXPECT_TRUE(std::ranges::any_of(read_records(options_.database), [&](const record::Record& r) {
    return r.candidate == preferred;
  }));
}

TEST_F(Collect, OnlyTheTasksThatAreNamed) {
  const SampleScope scope{.subjects = options_.subjects, .target = options_.target};
  const std::string key = make_samplers(scope)->samplers.at(0)->task().key;
  options_.subjects.push_back({"matmul:M=16,N=24,K=16", true, {}});
  options_.tasks = {key};
  const Result<CollectResult> done = collect(options_, {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->tasks, 1U);
  EXPECT_EQ(done->skipped, 1U);
  options_.tasks = {"0123"};
  EXPECT_EQ(collect(options_, {}).error().message, "no task has the key 0123");
}

TEST_F(Collect, LostWorkersDoNotCount) {
  options_.measure.hooks.before_build = [](const measure::Trial& trial) {
    if (trial.id == 2 || trial.id == 6) std::raise(SIGKILL);
  };
  const auto done = collect(options_, {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->records, 6);
  expect_records(6);
}

// From the first record on every compiler is killed; a file tells the workers.
TEST_F(Collect, AnErrorKeepsWhatWasMeasured) {
  options_.per_task = 60;
  const std::string flag = options_.database + ".flag";
  std::filesystem::remove(flag);
  options_.measure.hooks.before_build = [flag](const measure::Trial&) {
    if (std::filesystem::exists(flag)) std::raise(SIGKILL);
  };
  CollectCallbacks callbacks;
  std::int64_t records = 0;
  callbacks.progress = [&](const CollectProgress& p) {
    records = p.records;
    std::ofstream(flag) << "kill";
  };
  const auto done = collect(options_, callbacks);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
  ASSERT_GT(records, 0);
  expect_records(static_cast<std::size_t>(records));
  EXPECT_EQ(last_state(), "interrupted");
}

TEST_F(Collect, NumbersThatMakeNoSenseAreRefused) {
  const auto refuses = [&](const char* what, auto change) {
    CollectOptions o = options_;
    change(o);
    const auto done = collect(o, {});
    ASSERT_FALSE(done.ok()) << what;
    EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument) << done.error().message;
    EXPECT_NE(done.error().message.find(what), std::string::npos) << done.error().message;
    EXPECT_FALSE(std::filesystem::exists(o.database));
  };
  refuses("shard 0 of 0", [](CollectOptions& o) { o.shards = 0; });
  refuses("shard 2 of 2", [](CollectOptions& o) { o.shard = o.shards = 2; });
  refuses("-1 candidates per task", [](CollectOptions& o) { o.per_task = -1; });
  refuses("rounds of 0", [](CollectOptions& o) { o.round = 0; });
  refuses("share of 1.5", [](CollectOptions& o) { o.uniform_share = 1.5; });
  refuses("share of nan", [](CollectOptions& o) { o.uniform_share = std::nan(""); });
  refuses("0 threads", [](CollectOptions& o) { o.measure.threads = 0; });
  refuses("budget of -1", [](CollectOptions& o) { o.budget_s = -1; });
}

Samplers samplers_of_a_product() {
  SampleScope scope;
  scope.subjects = {{"matmul:M=64,N=64,K=64", true, {}}};
  scope.target = target::find_target("neoverse-v1").value();
  return make_samplers(scope).value();
}

TEST(CandidateSampler, DoesNotReplayTheDrawsOfEarlierCalls) {
  const Samplers a = samplers_of_a_product(), b = samplers_of_a_product(),
                 c = samplers_of_a_product();
  CandidateSampler &first = *a.samplers[0], &replays = *b.samplers[0], &goes_on = *c.samplers[0];
  for (const decide::Candidate& candidate : first.draw(8, 1)) {
    replays.take(candidate, 0);
    goes_on.take(candidate, 0);
  }
  goes_on.go_on();
  EXPECT_EQ(goes_on.measured(), 8);
  EXPECT_EQ(goes_on.records(), 8);
  const auto next = first.draw(8, 1);
  EXPECT_EQ(replays.draw(8, 1), next);
  EXPECT_NE(goes_on.draw(8, 1), next);
}

TEST(CandidateSampler, WhatIsLostIsNeitherCountedNorDrawnAgain) {
  const Samplers s = samplers_of_a_product();
  CandidateSampler& sampler = *s.samplers[0];
  const std::vector<decide::Candidate> drawn = sampler.draw(4, 1);
  sampler.lose();
  EXPECT_EQ(sampler.records(), 3);
  for (const decide::Candidate& again : sampler.draw(32, 1)) {
    for (const decide::Candidate& candidate : drawn) EXPECT_FALSE(again == candidate);
  }
}

}  // namespace
}  // namespace tessera::app
