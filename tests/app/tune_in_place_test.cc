// Tuning by trials inside the running model.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tessera/app/tune/trial_records.h"
#include "tessera/app/tune/tune.h"
#include "tessera/app/tune/tune_pace.h"
#include "tessera/app/tune/tune_problem.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/temporary_folder.h"
#include "tests/app/fake_measurer.h"
#include "tests/app/read_records.h"
#include "tests/onnx/model_builder.h"

namespace tessera::app {
namespace {

TuneOptions in_place(const TemporaryFolder& folder, std::int64_t trials) {
  TuneOptions options;
  options.target = target::code_target(target::host(), 1);
  options.subjects = {{"zoo:mlp@hidden=32", false, {.target = options.target}}};
  options.policy = "random";
  options.recombine = false;
  options.in_place = true;
  options.trials_per_task = trials;
  options.database = folder.path() + "/records.db";
  return options;
}

std::map<std::string, std::vector<record::Record>> by_task(const std::string& database) {
  std::map<std::string, std::vector<record::Record>> out;
  for (record::Record& r : read_records(database, {.subject = record::Subject::kInPlace}))
    out[r.task].push_back(std::move(r));
  return out;
}

TEST(TuneInPlace, EveryTaskHasSoManyRecordsAndALaterSessionGoesOn) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 4);
  use_answers(
      [](const measure::Trial& t, bool, measure::Measurement* m) {
        EXPECT_TRUE(t.in_place);
        m->samples_s = {2e-3};
        m->default_s = 1e-3;
      },
      &options);
  const Result<TuneResult> first = tune(options, {});
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->stopped_by, "trials");
  EXPECT_TRUE(first->subjects[0].untuned_checked);
  auto records = by_task(options.database);
  EXPECT_EQ(records.size(), first->tasks.size());
  const std::string model = records.begin()->second[0].model;
  EXPECT_EQ(model.size(), 16u);
  for (const auto& [task, list] : records) {
    ASSERT_EQ(list.size(), 4u) << task;
    EXPECT_EQ(list[0].policy, "default");
    for (const record::Record& r : list) {
      EXPECT_EQ(r.model, model);
      EXPECT_EQ(r.default_s, 1e-3);
      EXPECT_NE(r.schedule, "");
    }
  }
  EXPECT_TRUE(read_records(options.database).empty()) << "times of kernels alone";
  options.trials_per_task = 6;
  const Result<TuneResult> second = tune(options, {});
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->earlier, first->trials);
  for (const auto& [task, list] : by_task(options.database)) {
    EXPECT_EQ(list.size(), 6u) << task;
    EXPECT_EQ(std::ranges::count(list, "default", &record::Record::policy), 1) << task;
  }
}

// Times beside copies of the model are not those of the model alone, and none of them is quiet.
TEST(TuneInPlace, RecordsUnderContentionAreOfTheirOwn) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 2);
  use_answers(
      [](const measure::Trial&, bool, measure::Measurement* m) {
        m->samples_s = {2e-3};
        m->default_s = 1e-3;
      },
      &options);
  ASSERT_TRUE(tune(options, {}).ok());
  options.contention = 1;
  for (const std::int64_t earlier : {0, 1}) {
    const Result<TuneResult> beside = tune(options, {});
    ASSERT_TRUE(beside.ok()) << beside.error().message;
    EXPECT_EQ(beside->earlier > 0, earlier > 0) << "of trials beside a copy";
  }
  std::map<std::string, std::set<bool>> quiet;
  for (const auto& [task, list] : by_task(options.database)) {
    EXPECT_EQ(list.size(), 4u) << task;
    for (const record::Record& r : list) quiet[r.model].insert(r.quiet);
  }
  ASSERT_EQ(quiet.size(), 2u);
  EXPECT_EQ(quiet.begin()->second.size(), 1u);
  EXPECT_EQ(quiet.rbegin()->second.size(), 1u);
  EXPECT_NE(quiet.begin()->second, quiet.rbegin()->second);
}

// This policy begins with the default, which is being timed already.
TEST(TuneInPlace, ADefaultThatIsProposedAgainIsNoFaster) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 4);
  options.policy = "local";
  std::map<std::string, std::map<std::string, int>> timed;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        ++timed[t.task][schedule::to_text(t.steps)];
        m->default_s = m->samples_s.emplace_back(1e-3);
      },
      &options);
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (const TaskReport& t : result->tasks) {
    EXPECT_TRUE(std::ranges::any_of(timed[t.key], [](const auto& of) { return of.second > 1; }))
        << t.name;
    EXPECT_NEAR(t.best_s, 1e-3, 1e-12) << t.name;
  }
}

// The first time of the default is not what others are told by.
TEST(TuneInPlace, TellsWhatTheDefaultUsuallyTakes) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 3);
  std::map<std::string, int> calls;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        const int n = ++calls[t.task];
        m->default_s = n == 1 ? 8e-3 : 1e-3;
        m->samples_s = {m->default_s * (n == 3 ? 0.5 : 1)};
      },
      &options);
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (const TaskReport& t : result->tasks) {
    EXPECT_NEAR(t.before_s, 1e-3, 1e-12) << t.name;
    EXPECT_NEAR(t.best_s, 0.5e-3, 1e-12) << t.name;
  }
}

// A machine that is slower today makes no candidate of yesterday faster than it was.
TEST(TuneInPlace, LaterSessionsTellEarlierTimesByTheDefaultOfToday) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 3);
  std::map<std::string, int> calls;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        const int n = ++calls[t.task];
        m->default_s = n > 3 ? 2e-3 : 1e-3;
        m->samples_s = {m->default_s * (n == 2 ? 0.5 : n == 3 ? 0.6 : 1)};
      },
      &options);
  ASSERT_TRUE(tune(options, {}).ok());
  options.trials_per_task = 4;
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (const TaskReport& t : result->tasks) {
    EXPECT_NEAR(t.before_s, 2e-3, 1e-12) << t.name;
    EXPECT_NEAR(t.best_s, 1e-3, 1e-12) << t.name;
  }
}

// Within a budget the best few are timed anew, and only what these times say is told.
TEST(TuneInPlace, ABudgetEndsWithARace) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 0);
  options.budget_s = 100;
  double now_s = 0;
  options.elapsed_s = [&] { return now_s; };
  std::map<std::string, int> finals;
  std::map<std::string, std::string> defaults;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        now_s += 1;
        const std::string text = schedule::to_text(t.steps);
        const std::string& first = defaults.emplace(t.task, text).first->second;
        m->default_s = 1e-3;
        // What the search sees is twice the truth.
        const double gain = text == first ? 1 : t.final ? 1.1 : 1.2;
        m->samples_s = {m->default_s / gain};
        finals[t.task] += t.final ? 1 : 0;
      },
      &options);
  std::vector<double> shown;
  TuneCallbacks callbacks;
  callbacks.progress = [&](const TuneProgress& p) {
    if (p.phase == TuneProgress::Phase::kWholeModel && p.after_s > 0)
      shown.push_back(p.before_s / p.after_s);
  };
  const Result<TuneResult> result = tune(options, callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->stopped_by, "budget");
  EXPECT_EQ(finals.size(), result->tasks.size());
  ASSERT_FALSE(shown.empty());
  EXPECT_NEAR(shown.back(), 1.1, 1e-9);
  for (const TaskReport& t : result->tasks) EXPECT_FALSE(t.estimated) << t.name;
  for (const auto& [task, list] : by_task(options.database)) {
    const auto raced = std::ranges::count(list, "final", &record::Record::policy);
    EXPECT_EQ(raced, finals[task]);
    EXPECT_GE(raced, 3) << "one entrant at least, the batch that decides and the one that tells";
  }
}

// What wins by the times that it was picked by is not told as if it were proved.
TEST(TuneInPlace, WhatAnInterruptLeavesWithoutARaceIsEstimated) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 0);
  options.trials = 400;
  std::map<std::string, int> calls;
  int answered = 0;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        ++answered;
        m->default_s = 1e-3;
        m->samples_s = {++calls[t.task] == 1 ? 1e-3 : 0.8e-3};
      },
      &options);
  TuneCallbacks callbacks;
  callbacks.interrupted = [&] {
    return answered > 40 && std::ranges::all_of(calls, [](const auto& c) { return c.second > 2; });
  };
  const Result<TuneResult> result = tune(options, callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kInterrupted);
  for (const TaskReport& t : result->tasks) {
    EXPECT_TRUE(t.estimated) << t.name;
    EXPECT_NEAR(t.after_s, 0.8e-3, 1e-12) << t.name;
  }
}

// As long as nobody knows what a run of the model takes, a batch is as short as it can be: of a
// slow model a longer one would not end within the budget, and nothing would be known.
TEST(TuneInPlace, BeginsWithTheDefaultOfEachTask) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 0);
  options.trials = 40;
  std::vector<std::string> order;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        m->default_s = m->samples_s.emplace_back(1e-3);
        if (!t.final) order.push_back(t.task);
      },
      &options);
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  const std::size_t tasks = result->tasks.size();
  ASSERT_GT(order.size(), tasks);
  const std::set<std::string> first(order.begin(),
                                    order.begin() + static_cast<std::ptrdiff_t>(tasks));
  EXPECT_EQ(first.size(), tasks);
  EXPECT_NE(std::ranges::adjacent_find(order), order.end()) << "later they take turns";
}

// Time that a race did not need goes to another search and another race, which winners have to win
// again.
TEST(TuneInPlace, RacesAgainWhereTimeIsLeft) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 0);
  options.budget_s = 100;
  double now_s = 0, last_search_s = 0;
  options.elapsed_s = [&] { return now_s; };
  std::map<std::string, std::string> defaults;
  std::map<std::string, std::map<std::string, int>> finals;
  std::set<std::string> won;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        // Much less than the time that is kept for races.
        now_s += t.final ? 0.05 : 1;
        if (!t.final) last_search_s = now_s;
        const std::string text = schedule::to_text(t.steps);
        const std::string& first = defaults.emplace(t.task, text).first->second;
        m->default_s = 1e-3;
        double gain = text == first ? 1 : 1.2;
        if (t.final) {
          gain = won.contains(t.task) ? 0.9 : 1.1;
          if (++finals[t.task][text] == 3) won.insert(t.task);
        }
        m->samples_s = {m->default_s / gain};
      },
      &options);
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->stopped_by, "budget");
  EXPECT_GT(last_search_s, 70);
  ASSERT_EQ(finals.size(), result->tasks.size());
  for (const auto& [task, raced] : finals) {
    EXPECT_TRUE(std::ranges::any_of(raced, [](const auto& of) { return of.second > 3; })) << task;
  }
  for (const TaskReport& t : result->tasks) EXPECT_EQ(t.after_s, t.before_s) << t.name;
}

// Nor do they count against a limit of all trials, which holds without a budget, too.
TEST(TuneInPlace, KeepsALimitOfAllTrials) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 0);
  options.trials = 20;
  std::int64_t searched = 0, finals = 0;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        m->default_s = 1e-3;
        m->samples_s = {0.9e-3};
        ++(t.final ? finals : searched);
      },
      &options);
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->stopped_by, "trials");
  EXPECT_EQ(result->trials, 20);
  EXPECT_EQ(searched, 20);
  EXPECT_GT(finals, 0);
}

// Without a budget a task stops so many trials after its last gain, not after so many trials, and a
// later session gives each task as many again.
TEST(TuneInPlace, TasksThatGainGoOn) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 0);
  const std::int64_t patience = pace_of(options.target).stop_after, last_gain = patience + 200;
  std::map<std::string, std::int64_t> searched;
  std::string gaining;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        m->default_s = 1e-3;
        m->samples_s = {1e-3};
        if (t.final) return;
        if (gaining.empty()) gaining = t.task;
        const std::int64_t n = ++searched[t.task];
        if (t.task == gaining && (n == 300 || n == last_gain))
          m->samples_s = {n == 300 ? 0.9e-3 : 0.8e-3};
      },
      &options);
  const auto first = tune(options, {});
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_GT(searched.size(), 1u);
  constexpr std::int64_t kBatches = 32;  // that were under way
  for (const auto& [task, n] : searched) {
    const std::int64_t gained = task == gaining ? last_gain : 0;
    EXPECT_GE(n, gained + patience) << task;
    EXPECT_LE(n, gained + patience + kBatches) << task;
  }
  searched.clear();
  const auto second = tune(options, {});
  ASSERT_TRUE(second.ok()) << second.error().message;
  for (const auto& [task, n] : searched) EXPECT_GE(n, patience) << task;
  EXPECT_EQ(searched.size(), second->tasks.size());
}

// Algorithms are decided by rules there: nothing is planned or timed that is not in the model.
TEST(TuneInPlace, OtherAlgorithmsAreNoTasks) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  TuneOptions options = in_place(folder, 1);
  Rng rng(1);
  const onnx::Model model = onnx::testing::make_model(
      onnx::testing::make_graph({onnx::testing::value_info("x", DType::kF32, {1, 16, 12, 12})},
                                {onnx::testing::make_node("Conv", {"x", "w"}, {"y"})}, {"y"},
                                {{"w", random_tensor(DType::kF32, {16, 16, 3, 3}, rng)}}));
  options.subjects[0].name = folder.path() + "/conv.onnx";
  ASSERT_TRUE(onnx::save_model(model, options.subjects[0].name).ok());
  use_answers([](const measure::Trial&, bool,
                 measure::Measurement* m) { m->default_s = m->samples_s.emplace_back(1e-3); },
              &options);
  TuneCallbacks callbacks;
  callbacks.note = [](const std::string& line) {
    EXPECT_EQ(line.find("no time to look for kernels"), std::string::npos) << line;
  };
  const Result<TuneResult> result = tune(options, callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(std::ranges::all_of(result->tasks, &TaskReport::used));
  const Result<TuneProblem> alone = make_tune_problem(options.subjects, {});
  ASSERT_TRUE(alone.ok());
  EXPECT_GT(alone->tasks.size(), result->tasks.size());
}

// In real workers, of a task that has fewer candidates than trials, too.
TEST(TuneInPlace, TimesKernelsInTheModel) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  const TuneOptions options = in_place(folder, 3);
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kDone);
  const auto records = by_task(options.database);
  EXPECT_EQ(records.size(), result->tasks.size());
  for (const auto& [task, list] : records) {
    EXPECT_EQ(list.size(), 3u) << task;
    for (const record::Record& r : list) {
      EXPECT_TRUE(r.outcome == "ok" || r.outcome == "censored") << r.outcome << r.reason;
      EXPECT_GT(r.default_s, 0);
      EXPECT_FALSE(r.samples_s.empty());
    }
  }
  EXPECT_FALSE(result->plan.tasks.empty());
}

TEST(TuneInPlace, SaysWhatItCannotDo) {
  const TemporaryFolder folder = TemporaryFolder::make("in_place").value();
  const TuneOptions options = in_place(folder, 3);
  TuneOptions op = options, two = options, graph = options, device = options, alone = options;
  op.subjects = {{"matmul:M=32,N=24,K=16", true, {}}};
  two.subjects.push_back(two.subjects[0]);
  graph.level = TuneLevel::kGraph;
  for (const TuneOptions& wrong : {op, two, graph}) {
    const Result<TuneResult> result = tune(wrong, {});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message.find("one model"), std::string::npos);
  }
  alone.in_place = false;
  alone.contention = 1;
  EXPECT_EQ(tune(alone, {}).error().code, ErrorCode::kInvalidArgument);
  device.target = target::find_target("h200").value();
  EXPECT_EQ(tune(device, {}).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace tessera::app
