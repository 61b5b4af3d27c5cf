// Plans judged by times of kernels, and the decisions of a model tuned by them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "tessera/app/collect/collect_plans.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/app/tune/plan_scorer.h"
#include "tessera/app/tune/tune.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/temporary_folder.h"
#include "tests/app/fake_measurer.h"

namespace tessera::app {
namespace {

// Convolutions of 3x3 windows one behind the other, which layouts and algorithms are decided about.
graph::Graph chain(int length) {
  graph::GraphBuilder b("chain");
  graph::ValueId v = b.input("x", {DType::kF32, {1, 8, 12, 12}});
  for (int i = 0; i < length; ++i) {
    HostTensor w(DType::kF32, {8, 8, 3, 3});
    v = b.add("conv", {v, b.constant(w)},
              {{"layout", std::string("nchw")},
               {"strides", Shape{1, 1}},
               {"before", Shape{1, 1}},
               {"after", Shape{1, 1}}})
            .value();
    v = b.add("max", {v, b.scalar(DType::kF32, 0)}).value();
  }
  return b.finish({v}, {"y"});
}

bool starts_with(const std::string& text, const char* begin) { return text.rfind(begin, 0) == 0; }

PlanCosts neighbours_of(const graph::Graph& graph) {
  PlanCosts costs(task::PlanSpace::make(graph, passes_for(CompileOptions()), {}).value());
  EXPECT_TRUE(visit_neighbours(costs, [] { return false; }).ok());
  return costs;
}

TEST(PlanCosts, SumsWhatAPlanRuns) {
  PlanCosts costs(task::PlanSpace::make(chain(2), passes_for(CompileOptions()), {}).value());
  EXPECT_TRUE(std::isinf(costs.expected_s({}))) << "nothing was measured";
  const auto plan = costs.tasks_of({});
  ASSERT_TRUE(plan.ok());
  std::map<std::string, double> seconds;
  double sum = 0;
  for (const auto& [key, count] : **plan) {
    seconds[key] = 1e-6 * static_cast<double>(seconds.size() + 1);
    sum += count * seconds[key];
  }
  costs.set_seconds(seconds);
  EXPECT_DOUBLE_EQ(costs.expected_s({}), sum);
  EXPECT_TRUE(std::isinf(costs.expected_s({{"layouts", plan::kFirst}})))
      << "of kernels not measured";
  EXPECT_TRUE(std::isinf(costs.expected_s({{"layouts", "sideways"}}))) << "no plan";
}

// What the cut proposes by sums of kernels.
std::vector<decide::Candidate> cut_plans(PlanCosts& costs, std::size_t count) {
  SumScorer scorer(costs);
  search::PolicyOptions options;
  options.population = 8;
  options.generations = 1;
  const auto policy = search::find_policy("cut").value()->make(costs.space(), scorer, options);
  const search::Observation rules{costs.space().preferred(), 1, false};
  policy->observe({&rules, 1});
  return policy->propose(count);
}

// Channels first are faster, but one layout alone pays for two conversions.
TEST(CutPlans, TheCutFindsLayoutsThatPayTogether) {
  PlanCosts costs = neighbours_of(chain(4));
  const auto first = costs.tasks_of({{"layouts", plan::kFirst}});
  ASSERT_TRUE(first.ok());
  std::map<std::string, double> seconds;
  for (const task::Task& task : costs.tasks()) {
    const bool is_conversion = starts_with(task.name, "transpose");
    seconds[task.key] = is_conversion ? 4e-6 : (*first)->contains(task.key) ? 5e-6 : 8e-6;
  }
  costs.set_seconds(seconds);
  const std::vector<decide::Candidate> plans = cut_plans(costs, 2);
  ASSERT_FALSE(plans.empty());
  const double found_s = costs.expected_s(costs.space().decisions(plans[0]));
  EXPECT_DOUBLE_EQ(found_s, costs.expected_s({{"layouts", plan::kFirst}}));
  EXPECT_LT(found_s, costs.expected_s({}));
}

TEST(CutPlans, TakesValuesThatGainAlone) {
  PlanCosts costs = neighbours_of(chain(3));
  std::map<std::string, double> seconds;
  for (const task::Task& task : costs.tasks()) {
    seconds[task.key] = starts_with(task.name, "conv_winograd") ? 2e-6 : 6e-6;
  }
  costs.set_seconds(seconds);
  bool winograd = false;
  for (const auto& [key, value] : costs.space().decisions(cut_plans(costs, 1).at(0)))
    winograd |= starts_with(value, "winograd");
  EXPECT_TRUE(winograd);
}

TEST(TuneGraph, WholeModelsDecide) {
  TuneOptions options;
  options.subjects = {{"zoo:lenet", false, {}}};
  options.target = target::host();
  options.level = TuneLevel::kGraph;
  options.budget_s = 100;
  options.plans = 4;
  // Kernels that the rules do not take promise much: the whole models tell the truth.
  std::map<std::string, int> seen;
  use_answers(
      [&](const measure::Trial& trial, bool, measure::Measurement* m) {
        m->samples_s = {(seen.emplace(trial.task, seen.size()).first->second < 6 ? 9 : 3) * 1e-6};
      },
      &options);
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kDone);
  EXPECT_GT(result->graph.points, 4);
  EXPECT_GT(result->graph.judged, 10);
  EXPECT_GT(result->graph.measured, 0);
  ASSERT_EQ(result->subjects.size(), 1u);
  EXPECT_GT(result->subjects[0].before_s, 0);
  EXPECT_LE(result->subjects[0].after_s, result->subjects[0].before_s);
  EXPECT_FALSE(result->plan.tasks.empty());
  for (const GraphReport::Change& c : result->graph.changes) {
    EXPECT_EQ(result->plan.decisions.at(c.key), c.value);
  }
}

// Code of kernels that compute another function than those that it is kept for in the cache: they
// take the smaller of two numbers and not the larger one.
std::shared_ptr<const kernel::KernelCache> wrong_kernels(const std::string& model,
                                                         const target::Target& target,
                                                         const std::string& folder,
                                                         const char* right_op = "max",
                                                         const char* wrong_op = "min") {
  auto cache = std::make_shared<const kernel::KernelCache>(DiskCache(folder, 1 << 28));
  CompileOptions load;
  load.target = target;
  const graph::Graph right = load_graph(model, load).value();
  graph::Graph wrong = load_graph(model, load).value();
  for (graph::Node& node : wrong.nodes) {
    if (std::string_view(node.op->name) == right_op) node.op = graph::find_op(wrong_op);
  }
  const std::vector<task::Task> tasks = task::extract_tasks(right).value().tasks;
  const std::vector<task::Task> others = task::extract_tasks(wrong).value().tasks;
  EXPECT_TRUE(exec::compile_model(wrong, target, {.cache = cache}).ok());
  const auto key = [&](const task::Task& task, const std::string& steps) {
    return kernel::KernelCache::key(target, {}, te::to_text(task.dag), steps);
  };
  int changed = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].key == others[i].key) continue;
    const auto code = cache->find(key(others[i], ""), target);
    const auto steps = space::default_schedule(tasks[i].dag, target);
    if (!code || !steps) continue;
    for (const std::string& s : {std::string(), schedule::to_text(*steps) + "end"})
      cache->store(key(tasks[i], s), *code);
    ++changed;
  }
  EXPECT_GT(changed, 0);
  return cache;
}

// All plans are compared with the untuned model: it is compared with every node alone first.
TEST(TuneGraph, NoticesWrongDefaultKernels) {
  const TemporaryFolder folder = TemporaryFolder::make("wrong").value();
  TuneOptions options;
  options.target = target::code_target(target::host(), 1);
  options.subjects = {{"zoo:mlp@hidden=32", false, {.target = options.target}}};
  options.level = TuneLevel::kGraph;
  options.measure.threads = 1;
  options.budget_s = 100;
  options.plans = 1;
  use_answers([](const measure::Trial&, bool, measure::Measurement* m) { m->samples_s = {1e-5}; },
              &options);
  std::vector<std::string> notes;
  TuneCallbacks callbacks;
  callbacks.note = [&](const std::string& line) { notes.push_back(line); };
  for (const bool wrong : {false, true}) {
    notes.clear();
    options.model.cache =
        wrong ? wrong_kernels("zoo:mlp@hidden=32", options.target, folder.path()) : nullptr;
    const Result<TuneResult> result = tune(options, callbacks);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->state, wrong ? TuneState::kRejected : TuneState::kDone);
    EXPECT_EQ(result->subjects[0].untuned_checked, !wrong);
    EXPECT_EQ(notes.empty(), !wrong);
    if (!notes.empty()) {
      EXPECT_NE(notes[0].find("without tuning, the outputs differ"), std::string::npos);
    }
  }
}

// Numbers rounded down and not to the nearest: the mean of the outputs hides it, each kernel shows
// it.
TEST(TuneGraph, NoticesWrongKernelsOfANarrowModelThatTheOutputsHide) {
  const TemporaryFolder folder = TemporaryFolder::make("floor").value();
  const std::string model = "zoo:mlp@hidden=32,quant=qdq";
  TuneOptions options;
  options.target = target::code_target(target::host(), 1);
  options.subjects = {{model, false, {.target = options.target}}};
  options.level = TuneLevel::kGraph;
  options.measure.threads = 1;
  options.budget_s = 100;
  options.plans = 1;
  use_answers([](const measure::Trial&, bool, measure::Measurement* m) { m->samples_s = {1e-5}; },
              &options);
  std::vector<std::string> notes;
  TuneCallbacks callbacks;
  callbacks.note = [&](const std::string& line) { notes.push_back(line); };
  for (const bool wrong : {false, true}) {
    notes.clear();
    options.model.cache =
        wrong ? wrong_kernels(model, options.target, folder.path(), "round", "floor") : nullptr;
    const Result<TuneResult> result = tune(options, callbacks);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->state, wrong ? TuneState::kRejected : TuneState::kDone);
    EXPECT_EQ(result->subjects[0].untuned_checked, !wrong);
    const auto said = std::ranges::count_if(notes, [](const std::string& line) {
      return line.find("without tuning, the kernel of '") != std::string::npos;
    });
    EXPECT_EQ(said, wrong ? 1 : 0) << (notes.empty() ? "" : notes[0]);
  }
  CollectPlansOptions plans;
  plans.models = {model};
  plans.compile.target = options.target;
  plans.folder = folder.path() + "/plans";
  plans.plans = 2;
  EXPECT_TRUE(collect_plans(plans, {}).ok());
  plans.folder += "_wrong";
  plans.compile.cache = options.model.cache;
  const auto refused = collect_plans(plans, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kRunFailed);
  EXPECT_NE(refused.error().message.find("the rules' plan is wrong: the kernel of '"),
            std::string::npos)
      << refused.error().message;
}

// A model whose file is gone by then cannot be loaded in another way: the search says so and ends.
TEST(TuneGraph, SaysThatTheUntunedModelIsNotChecked) {
  const TemporaryFolder folder = TemporaryFolder::make("gone").value();
  const std::string file = folder.path() + "/mlp.onnx";
  ASSERT_TRUE(onnx::save_model(load_onnx("zoo:mlp@hidden=32").value(), file).ok());
  TuneOptions options;
  options.target = target::host();
  options.subjects = {{file, false, {}}};
  options.level = TuneLevel::kGraph;
  options.budget_s = 100;
  options.plans = 1;
  use_answers(
      [&](const measure::Trial&, bool, measure::Measurement* m) {
        std::filesystem::remove(file);
        m->samples_s = {1e-5};
      },
      &options);
  std::vector<std::string> notes;
  TuneCallbacks callbacks;
  callbacks.note = [&](const std::string& line) { notes.push_back(line); };
  const Result<TuneResult> result = tune(options, callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kDone);
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes[0].find("the untuned model is not checked"), std::string::npos) << notes[0];
  EXPECT_FALSE(result->subjects[0].untuned_checked);
}

TEST(CollectPlans, RefusesARulesPlanThatIsWrong) {
  const TemporaryFolder folder = TemporaryFolder::make("wrong_plans").value();
  CollectPlansOptions options;
  options.models = {"zoo:mlp@hidden=32"};
  options.compile.target = target::code_target(target::host(), 1);
  options.folder = folder.path() + "/plans";
  options.plans = 2;
  options.compile.cache = wrong_kernels(options.models[0], options.compile.target, folder.path());
  const auto wrong = collect_plans(options, {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::kRunFailed);
  EXPECT_NE(wrong.error().message.find("the rules' plan differs from every node alone"),
            std::string::npos)
      << wrong.error().message;
}

// Schedules that are found make the rules' plan faster too: both have them.
TEST(TuneGraph, BothLevelsTuneKernelsFirst) {
  TuneOptions options;
  options.subjects = {{"zoo:lenet", false, {}}};
  options.target = target::host();
  options.level = TuneLevel::kBoth;
  options.budget_s = 100;
  options.plans = 4;
  options.trials_per_task = 4;
  std::map<std::string, int> trials;
  use_answers([&](const measure::Trial& trial, bool,
                  measure::Measurement* m) { m->samples_s = {1e-5 / ++trials[trial.task]}; },
              &options);
  std::vector<bool> checked;
  std::map<std::string, int> survey;  // trials of it
  options.start_measurer = [&, start = options.start_measurer](
                               auto tasks, const target::Target& target,
                               const measure::MeasureOptions& measured) {
    if (!checked.empty()) survey = trials;
    checked.push_back(measured.check_results);
    EXPECT_TRUE(measured.cold_caches) << "as in a model";
    EXPECT_GT(measured.evicted_bytes, 0);
    return start(std::move(tasks), target, measured);
  };
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kDone);
  EXPECT_GT(result->graph.measured, 0);
  EXPECT_LE(result->graph.measured, 4 + static_cast<int>(plan::kPlanKinds.size()))
      << "and each kind alone";
  EXPECT_EQ(checked, (std::vector<bool>{false, true})) << "defaults are only timed";
  EXPECT_GT(result->graph.untuned_s, 0);
  EXPECT_LE(result->subjects[0].after_s, result->subjects[0].before_s);
  std::int64_t tuned = 0;
  for (const auto& [task, count] : trials) tuned += count > 1 ? 1 : 0;
  EXPECT_GE(tuned, 4);
  // Of the default again, and of others.
  for (const auto& [task, count] : trials) {
    if (count == survey[task]) continue;
    EXPECT_GE(count - survey[task], options.trials_per_task) << task;
  }
  EXPECT_LT(tuned, std::ssize(trials)) << "kernels of plans that promise nothing";
  EXPECT_FALSE(result->plan.tasks.empty());
}

TEST(TuneGraph, TimesWarmBesideSchedulesThatWereFoundSo) {
  const TemporaryFolder folder = TemporaryFolder::make("warm").value();
  TuneOptions options;
  options.subjects = {{"zoo:mlp@hidden=32", false, {}}};
  options.target = target::host();
  options.database = folder.path() + "/records.db";
  options.trials_per_task = 2;
  options.plans = 1;
  use_answers([](const measure::Trial&, bool, measure::Measurement* m) { m->samples_s = {1e-5}; },
              &options);
  std::vector<bool> cold;
  options.start_measurer = [&, start = options.start_measurer](
                               auto tasks, const target::Target& target,
                               const measure::MeasureOptions& measured) {
    cold.push_back(measured.cold_caches);
    return start(std::move(tasks), target, measured);
  };
  const auto run = [&](TuneLevel level, int threads) {
    options.level = level;
    options.budget_s = level == TuneLevel::kGraph ? 100 : 0;
    options.measure.threads = threads;
    const Result<TuneResult> result = tune(options, {});
    ASSERT_TRUE(result.ok()) << result.error().message;
  };
  // Defaults that nobody checked are no schedules, and those of other threads are none here.
  run(TuneLevel::kGraph, 1);
  run(TuneLevel::kKernel, 2);
  run(TuneLevel::kGraph, 1);
  EXPECT_EQ(cold, (std::vector<bool>{true, false, true}));
  cold.clear();
  run(TuneLevel::kKernel, 1);
  run(TuneLevel::kGraph, 1);
  EXPECT_EQ(cold, (std::vector<bool>{false, false}));

  options.database = folder.path() + "/nothing/records.db";
  EXPECT_EQ(tune(options, {}).error().code, ErrorCode::kUnavailable);
}

TEST(TuneGraph, GoesOnFromAnEarlierPlan) {
  TuneOptions options;
  options.subjects = {{"zoo:lenet", false, {}}};
  options.target = target::host();
  options.level = TuneLevel::kGraph;
  options.budget_s = 100;
  options.plans = 1;
  options.judges = {"none"};
  options.start = {{"layout Conv /conv1/Conv", plan::kFirst},
                   {"layout Conv /conv9/Conv", plan::kFirst},
                   {"layout Conv /conv2/Conv", "sideways"}};
  use_answers([](const measure::Trial&, bool, measure::Measurement* m) { m->samples_s = {1e-5}; },
              &options);
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_FALSE(result->graph.plans.empty());
  EXPECT_EQ(result->graph.plans[0].found_by, "earlier plan");
  EXPECT_EQ(result->graph.plans[0].changes, 1u) << "what there is and what it can be";
}

TEST(TuneGraph, SaysWhatIsWrongWithAJudge) {
  TuneOptions options;
  options.subjects = {{"zoo:lenet", false, {}}};
  options.target = target::host();
  options.level = TuneLevel::kGraph;
  options.judges = {"/nonexistent/weights.safetensors"};
  EXPECT_FALSE(tune(options, {}).ok());
}

TEST(TuneGraph, TakesOneModel) {
  TuneOptions options;
  options.target = target::host();
  for (const TuneLevel level : {TuneLevel::kGraph, TuneLevel::kBoth}) {
    options.level = level;
    options.subjects = {{"matmul:M=32,N=24,K=16", true, {}}};
    EXPECT_EQ(tune(options, {}).error().code, ErrorCode::kInvalidArgument);
    options.subjects = {{"zoo:lenet", false, {}}, {"zoo:mlp", false, {}}};
    EXPECT_EQ(tune(options, {}).error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tessera::app
