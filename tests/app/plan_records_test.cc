// Whole models with a plan as records.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <set>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/app/tune/trial_records.h"
#include "tessera/app/tune/tune_simulate.h"
#include "tessera/frontend/task/plan_space.h"
#include "tessera/support/temporary_folder.h"
#include "tests/app/fake_measurer.h"
#include "tests/app/read_records.h"

namespace tessera::app {
namespace {

graph::Graph imported() {
  CompileOptions plain;
  plain.optimize = false;
  return load_graph("zoo:mlp@hidden=32", plain).value();
}

RecordOptions plan_options(const TemporaryFolder& folder) {
  return {.database = folder.path() + "/plans.db",
          .subjects = {{"zoo:mlp@hidden=32", false, {}}},
          .target = target::code_target(target::host(), 1)};
}

TEST(PlanTrials, AreKeptReadAndListed) {
  const TemporaryFolder folder = TemporaryFolder::make("plans").value();
  const RecordOptions options = plan_options(folder);
  const graph::Graph model = imported();
  const PlanTrial timed{{{"layout Conv a", "first"}, {"algorithm Conv b", "winograd(4)"}},
                        "evolution",
                        {1e-3, 2e-3},
                        1e-3,
                        2e-3,
                        ""};
  {
    TrialRecords records = TrialRecords::open(options, {}).value();
    EXPECT_TRUE(records.earlier_plans(model)->empty());
    EXPECT_TRUE(records.add_plan(model, timed));
    EXPECT_TRUE(records.add_plan(model, {{{"k", "v"}}, "sums", {}, 0, 0, "other outputs"}));
  }
  const TrialRecords later = TrialRecords::look(options).value();
  const std::vector<PlanTrial> plans = later.earlier_plans(model).value();
  ASSERT_EQ(plans.size(), 1u) << "what failed has no share";
  EXPECT_EQ(plans[0].decisions, timed.decisions);
  EXPECT_EQ(plans[0].found_by, "evolution");
  EXPECT_EQ(plans[0].samples_s, timed.samples_s);
  EXPECT_EQ(plans[0].share(), 0.5);
  RecordOptions elsewhere = options;
  elsewhere.threads = 2;
  EXPECT_TRUE(TrialRecords::look(elsewhere)->earlier_plans(model)->empty());
  const record::Database database = record::Database::open_read_only(options.database).value();
  const auto rows = database.summaries({.subject = std::nullopt}).value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].subject, record::Subject::kModel);
  EXPECT_EQ(rows[0].records, 2);
  EXPECT_EQ(rows[0].timed, 1);
  EXPECT_EQ(database.tasks()->at(0).name, "zoo:mlp@hidden=32");
}

// Whatever ends the process, what was measured is there.
TEST(PlanTrials, AKilledProcessLosesNone) {
  const TemporaryFolder folder = TemporaryFolder::make("plans").value();
  const RecordOptions options = plan_options(folder);
  const graph::Graph model = imported();
  constexpr int kPlans = 7;
  const pid_t child = fork();
  if (child == 0) {
    Result<TrialRecords> records = TrialRecords::open(options, {});
    for (int i = 0; records.ok() && i < kPlans; ++i)
      records->add_plan(model, {{{"k", std::to_string(i)}}, "evolution", {1e-3}, 1e-3, 1e-3, ""});
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto plans = TrialRecords::look(options)->earlier_plans(model);
  ASSERT_TRUE(plans.ok()) << plans.error().message;
  EXPECT_EQ(plans->size(), static_cast<std::size_t>(kPlans));
}

TEST(PlanTrials, WithoutADatabaseNothingIsKept) {
  RecordOptions options;
  options.target = target::code_target(target::host(), 1);
  TrialRecords none = TrialRecords::open(options, {}).value();
  EXPECT_TRUE(none.add_plan(imported(), {}));
  EXPECT_TRUE(none.earlier_plans(imported())->empty());
}

// Each plan that was measured is a record, and is not measured again by the next session, unless it
// was one of the fastest.
TEST(PlanTrials, ALaterSearchReadsThem) {
  const TemporaryFolder folder = TemporaryFolder::make("plans").value();
  TuneOptions options;
  options.target = target::code_target(target::host(), 1);
  options.subjects = {{"zoo:lenet", false, {}}};
  options.level = TuneLevel::kGraph;
  options.budget_s = 100;
  options.plans = 3;
  options.judges = {"none"};
  options.database = folder.path() + "/records.db";
  use_answers([](const measure::Trial&, bool, measure::Measurement* m) { m->samples_s = {1e-5}; },
              &options);
  std::vector<std::size_t> measured;
  for (int session = 0; session < 2; ++session) {
    const Result<TuneResult> result = tune(options, {});
    ASSERT_TRUE(result.ok()) << result.error().message;
    measured.push_back(result->graph.plans.size());
  }
  std::vector<std::set<std::string>> plans(2);
  std::vector<std::size_t> records(2);
  for (const record::Record& r :
       read_records(options.database, {.subject = record::Subject::kModel})) {
    const auto session = static_cast<std::size_t>(r.session - 1);
    plans.at(session).insert(r.candidate);
    ++records[session];
    EXPECT_EQ(r.outcome, "ok");
    EXPECT_GT(r.seconds, 0);
    EXPECT_GT(r.default_s, 0);
    EXPECT_FALSE(r.samples_s.empty());
  }
  EXPECT_EQ(records, measured);
  EXPECT_GE(measured[0], 3u);
  std::vector<std::string> both;
  std::ranges::set_intersection(plans[0], plans[1], std::back_inserter(both));
  EXPECT_LE(both.size(), 2u);
}

// Policies are compared on what was recorded; nothing is measured.
TEST(PlanTrials, AreSimulated) {
  const TemporaryFolder folder = TemporaryFolder::make("plans").value();
  RecordOptions options = plan_options(folder);
  const TuneSubject model{"zoo:lenet", false, {}};
  options.subjects = {model};
  const graph::Graph lenet = import_undecided(model.name, model.compile).value();
  const auto space = task::PlanSpace::make(lenet, passes_for({}), {}, {decide::PointKind::kFusion});
  SimulateOptions simulated;
  simulated.database = options.database;
  simulated.target = target::host();
  simulated.policies = {"random", "local", "cut"};
  simulated.trials = 6;
  simulated.seeds = 2;
  Rng rng(1);
  {
    TrialRecords records = TrialRecords::open(options, {}).value();
    for (int i = 0; i < 2; ++i) {
      if (i == 1) {
        const auto few = simulate_plans(model, simulated);
        ASSERT_FALSE(few.ok());
        EXPECT_NE(few.error().message.find("are needed"), std::string::npos);
      }
      for (int n = 0; n < 1 + 5 * i; ++n) {
        const double seconds = 1e-3 * (1 + 0.1 * n);
        records.add_plan(
            lenet,
            {space->decisions(space->sample(rng)), "random", {seconds}, seconds, 1.25e-3, ""});
      }
    }
  }
  const Result<Simulation> done = simulate_plans(model, simulated);
  ASSERT_TRUE(done.ok()) << done.error().message;
  ASSERT_EQ(done->tasks.size(), 1u);
  EXPECT_EQ(done->tasks[0].name, "zoo:lenet");
  EXPECT_EQ(done->tasks[0].best_s, 1e-3);
  EXPECT_GE(done->tasks[0].candidates, 4u);
  ASSERT_EQ(done->curves.size(), 6u);
  for (const Curve& curve : done->curves) {
    ASSERT_EQ(curve.best_s.size(), std::min<std::size_t>(6, done->tasks[0].candidates));
    EXPECT_EQ(curve.best_s[0], 1.25e-3) << "the rules' plan comes first";
    EXPECT_TRUE(std::is_sorted(curve.best_s.rbegin(), curve.best_s.rend()));
  }
  EXPECT_GT(done->score("local", 6), 0.8);
  simulated.database += ".none";
  EXPECT_EQ(simulate_plans(model, simulated).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(simulated.database));
}

}  // namespace
}  // namespace tessera::app
