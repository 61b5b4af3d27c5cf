#include "tessera/app/compile/zero_trials.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/app/compile/plan_schedules.h"
#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/tune/tune_problem.h"
#include "tessera/backend/kernel/build_kernel.h"
#include "tessera/learn/dataset/candidate_rows.h"
#include "tessera/learn/lm/uniform_reader.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/scheduling/space/kind.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

// A small network with random weights over the features of this program.
nn::TrainedNetwork untrained() {
  const auto kind = feature::Rows::kStatement;
  nn::TrainedNetwork network;
  const auto columns = static_cast<std::int64_t>(dataset::row_names(kind).size());
  const auto context = static_cast<std::int64_t>(dataset::context_names(kind).size());
  network.spec = nn::make_spec("mlp", {{"hidden", 16}}, columns, context).value();
  Rng rng(3);
  const nn::Network built = nn::build_network(network.spec, {.batch = 1, .rows = 1}).value();
  for (const nn::Parameter& p : built.parameters) {
    network.weights[p.name] = nn::initial_value(p, rng);
  }
  network.rows = {std::vector<float>(static_cast<std::size_t>(columns), 0),
                  std::vector<float>(static_cast<std::size_t>(columns), 0.1f)};
  network.context = {std::vector<float>(static_cast<std::size_t>(context), 0),
                     std::vector<float>(static_cast<std::size_t>(context), 0.1f)};
  network.row_schema = dataset::row_schema(kind);
  network.context_schema = dataset::context_schema(kind);
  network.time_shift = -12;
  network.residual_low = -0.5;
  network.residual_mid = 0.1;
  network.residual_high = 0.8;
  return network;
}

// As if it had learnt from `count` candidates of every sketch of the tasks.
nn::KindCounts kinds_of_tasks(const std::vector<task::Task>& tasks, const target::Target& target,
                              int threads, std::int64_t count) {
  nn::KindCounts out;
  for (const task::Task& t : tasks) {
    const auto space = space::make_space(t.dag, target).value();
    for (const auto& sketch : space.sketches()) {
      out[space::candidate_kind(t.dag, target, threads, sketch->name() + ":")] = count;
    }
  }
  return out;
}

class ZeroTrials : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/zero_trials_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(folder_);
    path_ = folder_ + "/network.safetensors";
    const auto problem = make_tune_problem(
        {{"matmul:M=64,N=96,K=128", true, {}}, {"softmax:R=32,C=100", true, {}}}, {});
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    for (const TuneTask& t : problem->tasks) tasks_.push_back(t.task);
    for (task::Task& t : tasks_) t.weight = 2;
    options_.target = target::host();
    learn_from(kinds_of_tasks(tasks_, options_.target, 1, 1000));
  }
  void TearDown() override { fs::remove_all(folder_); }

  void learn_from(const nn::KindCounts& kinds, const std::string& targets = "") {
    nn::TrainedNetwork network = untrained();
    nn::note_kinds(kinds, &network.notes);
    if (!targets.empty()) network.notes["targets"] = targets;
    ASSERT_TRUE(nn::save_network(network, path_).ok());
    auto loaded = model::load_model(path_);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    options_.model = std::move(*loaded);
  }

  std::string folder_, path_;
  std::vector<task::Task> tasks_;
  ZeroTrialOptions options_;
};

TEST_F(ZeroTrials, PicksWhatTheModelPromises) {
  const auto r = choose_schedules(tasks_, options_);
  ASSERT_TRUE(r.ok()) << r.error().message;
  ASSERT_EQ(r->tasks.size(), tasks_.size());
  for (const TaskPrediction& t : r->tasks) {
    EXPECT_TRUE(t.known);
    EXPECT_GT(t.scored, 16);
    EXPECT_GT(t.default_s, 0);
    if (t.changed) {
      EXPECT_LE(std::log2(t.seconds), std::log2(t.default_s) - options_.margin + 1e-3);
    } else {
      EXPECT_EQ(t.seconds, t.default_s);
    }
    EXPECT_EQ(r->plan.tasks.count(t.key), t.changed ? 1u : 0u);
  }
  // What was picked builds, and the same seed picks it again.
  const auto schedules = PlanSchedules::make(r->plan, options_.target, false);
  ASSERT_TRUE(schedules.ok());
  exec::ModelOptions build;
  build.schedule = schedules->schedules();
  for (const task::Task& task : tasks_) {
    const auto steps = build.schedule(task);
    ASSERT_TRUE(steps.ok()) << steps.error().message;
    EXPECT_TRUE(kernel::lower_kernel(task.dag, *steps, options_.target).ok()) << task.name;
  }
  const auto again = choose_schedules(tasks_, options_);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(plan::to_json(again->plan), plan::to_json(r->plan));
}

TEST_F(ZeroTrials, KeepsDefaultsThatAreNotClearlyBeaten) {
  options_.margin = 1e6;
  const auto r = choose_schedules(tasks_, options_);
  ASSERT_TRUE(r.ok());
  EXPECT_TRUE(r->plan.tasks.empty());
}

// Whatever it promises.
TEST_F(ZeroTrials, KeepsDefaultsOfKindsThatTheModelDidNotLearnFrom) {
  options_.margin = -1e6;
  const auto changed = [&](const nn::KindCounts& kinds) {
    learn_from(kinds);
    const auto r = choose_schedules(tasks_, options_);
    EXPECT_TRUE(r.ok());
    for (const TaskPrediction& t : r->tasks) {
      EXPECT_TRUE(t.known || !t.changed);
      EXPECT_TRUE(t.known || t.scored <= 1) << "nothing is searched that cannot be chosen";
    }
    return r->plan.tasks.size();
  };
  const nn::KindCounts all = kinds_of_tasks(tasks_, options_.target, 1, 1000);
  EXPECT_EQ(changed(all), tasks_.size());
  EXPECT_EQ(changed({}), 0u) << "no notes, no choice";
  EXPECT_EQ(changed(kinds_of_tasks(tasks_, options_.target, 1, kLeastExamples - 1)), 0u);
  EXPECT_EQ(changed(kinds_of_tasks(tasks_, options_.target, 2, 1000)), 0u) << "other threads";
  target::Target other = options_.target;
  other.has_i8_dot = !other.has_i8_dot;
  EXPECT_EQ(changed(kinds_of_tasks(tasks_, other, 1, 1000)), 0u) << "another machine";
  EXPECT_EQ(changed(kinds_of_tasks({tasks_[1]}, options_.target, 1, 1000)), 1u)
      << "only what has sketches of that name";
  nn::KindCounts bytes;
  for (const auto& [kind, count] : all) {
    std::string text = kind;
    bytes[text.replace(text.find(" f32 "), 5, " f32+i8 ")] = count;
  }
  EXPECT_EQ(changed(bytes), 0u) << "other elements";
}

TEST_F(ZeroTrials, LeavesNoSketchForOneThatTheModelDidNotLearnFrom) {
  options_.margin = -1e6;
  nn::KindCounts kinds;
  for (const task::Task& t : tasks_) {
    const auto space = space::make_space(t.dag, options_.target).value();
    kinds[space::candidate_kind(t.dag, options_.target, 1, space.to_text(space.preferred()))] = 99;
  }
  learn_from(kinds);
  const auto r = choose_schedules(tasks_, options_);
  ASSERT_TRUE(r.ok());
  for (const task::Task& t : tasks_) {
    const plan::PlanEntry* entry = r->plan.find(t.key);
    if (entry == nullptr) continue;
    EXPECT_TRUE(kinds.contains(space::candidate_kind(t.dag, options_.target, 1, entry->candidate)))
        << entry->candidate;
  }
}

TEST_F(ZeroTrials, JudgesOnlyWhatAPlanLacks) {
  options_.margin = -1e6;  // whatever scores best
  options_.known.threads = 3;
  options_.known.model = "mine";
  options_.known.tasks[tasks_[0].key] = {"known", "a schedule", "a candidate", 1};
  const auto r = choose_schedules(tasks_, options_);
  ASSERT_TRUE(r.ok()) << r.error().message;
  ASSERT_EQ(r->tasks.size(), 1u);
  EXPECT_EQ(r->tasks[0].key, tasks_[1].key);
  EXPECT_TRUE(r->tasks[0].changed);
  EXPECT_EQ(r->plan.tasks.size(), 2u);
  EXPECT_EQ(r->plan.find(tasks_[0].key)->schedule, "a schedule");
  EXPECT_EQ(r->plan.model, "mine");
  EXPECT_EQ(r->plan.threads, 3);
  EXPECT_EQ(r->plan.target, target::to_text(options_.target));
}

TEST(ChooseCandidate, ThoseWhoAgreeLeaveOutWhatOneOfThemDoubts) {
  JudgedTask task;
  task.tells_times = true;
  task.candidates = {{.candidate = {0, {0}}, .score = 0, .log_time = -10},
                     {.candidate = {0, {1}}, .score = 3, .log_time = -10.9f, .evidence = -2},
                     {.candidate = {0, {2}}, .score = 2, .log_time = -10.8f, .evidence = 4},
                     {.candidate = {0, {3}}, .score = -1, .log_time = -14, .evidence = 4}};
  const auto chosen = [&](double margin, double evidence) {
    return choose_candidate(task, margin, evidence, [](const decide::Candidate&) { return true; });
  };
  EXPECT_EQ(chosen(1.5, kNoEvidence), nullptr) << "what scores below the default is not looked at";
  EXPECT_EQ(chosen(0.5, kNoEvidence), &task.candidates[1]);
  EXPECT_EQ(chosen(0.5, 0), &task.candidates[2]) << "the best score has the evidence against it";
  EXPECT_EQ(chosen(0.5, 4), nullptr) << "too little evidence";
  EXPECT_EQ(chosen(0.85, 0), nullptr);
  EXPECT_EQ(
      choose_candidate(task, 0.5, kNoEvidence, [](const decide::Candidate&) { return false; }),
      nullptr);
  task.tells_times = false;
  EXPECT_EQ(chosen(0, kNoEvidence), nullptr);
}

TEST_F(ZeroTrials, ALanguageModelProposesBesideEvolution) {
  const auto alone = choose_schedules(tasks_, options_);
  ASSERT_TRUE(alone.ok());
  std::atomic<int> opened = 0;
  options_.open_language = [&]() -> Result<std::shared_ptr<lm::Reader>> {
    ++opened;
    return std::shared_ptr<lm::Reader>(std::make_shared<lm::UniformReader>());
  };
  options_.sentences = 20;
  const auto r = choose_schedules(tasks_, options_);
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(opened, 1) << "one for the thread";
  for (std::size_t t = 0; t < tasks_.size(); ++t) {
    EXPECT_GT(r->tasks[t].scored, alone->tasks[t].scored);
    if (r->tasks[t].changed) {
      EXPECT_LE(std::log2(r->tasks[t].seconds),
                std::log2(r->tasks[t].default_s) - options_.agreed.margin + 1e-3);
    }
  }
  options_.open_language = []() -> Result<std::shared_ptr<lm::Reader>> {
    return make_error(ErrorCode::kIo, "no weights");
  };
  EXPECT_NE(choose_schedules(tasks_, options_).error().message.find("no weights"),
            std::string::npos);
}

// Parallel decisions of the plan's candidates that differ from the preferred ones.
int shared_otherwise(const std::vector<task::Task>& tasks, const target::Target& target,
                     const plan::Plan& plan) {
  int count = 0;
  for (const task::Task& t : tasks) {
    const plan::PlanEntry* entry = plan.find(t.key);
    if (entry == nullptr) continue;
    const auto space = space::make_space(t.dag, target);
    EXPECT_TRUE(space.ok());
    const auto c = space->parse(entry->candidate);
    EXPECT_TRUE(c.ok()) << entry->candidate;
    const auto steps = space->schedule(*c);
    EXPECT_TRUE(steps.ok());
    EXPECT_EQ(schedule::to_text(*steps), entry->schedule);
    const std::vector<decide::Point>& decisions = space->points(*c);
    for (std::size_t d = 0; d < decisions.size(); ++d) {
      const bool parallel = decisions[d].kind == decide::PointKind::kParallel;
      if (parallel && c->choice[d] != decisions[d].preferred) ++count;
    }
  }
  return count;
}

TEST_F(ZeroTrials, AModelOfOneThreadSharesNothingOut) {
  const auto problem = make_tune_problem({{"matmul:M=256,N=192,K=128", true, {}},
                                          {"softmax:R=512,C=100", true, {}},
                                          {"matmul:M=512,N=64,K=64", true, {}}},
                                         {});
  ASSERT_TRUE(problem.ok());
  tasks_.clear();
  for (const TuneTask& t : problem->tasks) tasks_.push_back(t.task);
  options_.target.cores = 4;
  options_.threads = 4;
  options_.margin = -1e6;  // whatever scores best
  options_.candidates = 4000;
  nn::KindCounts kinds = kinds_of_tasks(tasks_, options_.target, 1, 1000);
  kinds.merge(kinds_of_tasks(tasks_, options_.target, 4, 1000));
  const auto choose = [&](const std::string& targets) {
    learn_from(kinds, targets);
    auto r = choose_schedules(tasks_, options_);
    EXPECT_TRUE(r.ok());
    return std::move(*r);
  };
  const ZeroTrialResult one = choose("a cores=1 threads=1; b cores=1 threads=1");
  EXPECT_EQ(one.threads, 1);
  EXPECT_EQ(one.plan.threads, 1);
  EXPECT_FALSE(one.plan.tasks.empty());
  EXPECT_EQ(shared_otherwise(tasks_, options_.target, one.plan), 0);
  const ZeroTrialResult four = choose("a cores=1 threads=1; b cores=4 threads=4");
  EXPECT_EQ(four.threads, 4);
  EXPECT_GT(shared_otherwise(tasks_, options_.target, four.plan), 0);
  // No further than what was learnt from.
  options_.threads = 64;
  EXPECT_EQ(choose("a cores=1 threads=1; b cores=4 threads=4").threads, 4);
  // What is judged for one thread cannot be shared out well either.
  options_.threads = 1;
  const ZeroTrialResult judged = choose("a cores=1 threads=1; b cores=4 threads=4");
  EXPECT_EQ(judged.threads, 1);
  EXPECT_EQ(shared_otherwise(tasks_, options_.target, judged.plan), 0);
}

TEST(ShippedFolder, IsBesideTheProgramAlone) {
  const fs::path root = fs::path(::testing::TempDir()) / "shipped_folder";
  fs::remove_all(root);
  const std::string bin = (root / "tree/build/release/bin").string();
  fs::create_directories(bin);
  fs::create_directories(root / "elsewhere/things");
  std::ofstream(root / "elsewhere/things/mark") << "x";
  const fs::path before = fs::current_path();
  fs::current_path(root / "elsewhere");
  EXPECT_EQ(shipped_folder(bin, "things", "mark"), "") << "the working directory is anybody's";
  const fs::path installed = root / "tree/build/release/share/tessera/things";
  fs::create_directories(installed);
  EXPECT_EQ(shipped_folder(bin, "things", "mark"), "") << "without its mark";
  std::ofstream(installed / "mark") << "x";
  EXPECT_EQ(shipped_folder(bin, "things", "mark"), fs::canonical(installed).string());
  fs::create_directories(root / "tree/things");
  std::ofstream(root / "tree/things/mark") << "x";
  EXPECT_EQ(shipped_folder(bin, "things", "mark"), fs::canonical(root / "tree/things").string());
  EXPECT_EQ(shipped_folder("things", "mark"), "") << "that of this program";
  fs::current_path(before);
  fs::remove_all(root);
}

TEST_F(ZeroTrials, ShippedModelsAreFoundByFamily) {
  const std::string arch = options_.target.arch == target::Arch::kAArch64 ? "aarch64" : "x86_64";
  for (const std::string name : {"-small", "-default", "-large"}) {
    fs::copy_file(path_, folder_ + "/" + arch + name + ".safetensors");
  }
  std::ofstream(folder_ + "/riscv64-default.safetensors") << "x";
  const std::vector<std::string> found = shipped_models(folder_, options_.target);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(fs::path(found[0]).stem(), arch + "-default");
  EXPECT_EQ(fs::path(found[1]).stem(), arch + "-large");
  EXPECT_TRUE(shipped_models(folder_ + "/absent", options_.target).empty());
  EXPECT_EQ(default_models(found), std::vector<std::string>{found[0]});
  EXPECT_TRUE(default_models({}).empty());
  for (const std::string name : {"-default-1", "-default-x", "-default-12"}) {
    fs::copy_file(path_, folder_ + "/" + arch + name + ".safetensors");
  }
  const std::vector<std::string> together =
      default_models(shipped_models(folder_, options_.target));
  ASSERT_EQ(together.size(), 2u);
  EXPECT_EQ(fs::path(together[0]).stem(), arch + "-default-1");
  EXPECT_EQ(fs::path(together[1]).stem(), arch + "-default-12");
  using Paths = std::vector<std::string>;
  EXPECT_EQ(model_paths("none", options_.target), Paths());
  EXPECT_EQ(model_paths("some/file", options_.target), Paths{"some/file"});
  EXPECT_EQ(model_paths("some/file,b,", options_.target), (Paths{"some/file", "b"}));
}

TEST_F(ZeroTrials, LanguageModelsAreNoCostModels) {
  const std::string arch = options_.target.arch == target::Arch::kAArch64 ? "aarch64" : "x86_64";
  const target::Target gpu = target::find_target("h200").value();
  const std::size_t before = shipped_models(folder_, options_.target).size();
  EXPECT_EQ(shipped_language(folder_, options_.target), "");
  EXPECT_EQ(shipped_language("", options_.target), "");
  std::ofstream(folder_ + "/cpu-language.safetensors") << "x";
  EXPECT_EQ(fs::path(shipped_language(folder_, options_.target)).stem(), "cpu-language");
  EXPECT_EQ(shipped_language(folder_, gpu), "");
  std::ofstream(folder_ + "/" + arch + "-language.safetensors") << "x";
  EXPECT_EQ(fs::path(shipped_language(folder_, options_.target)).stem(), arch + "-language");
  EXPECT_EQ(shipped_models(folder_, options_.target).size(), before);
  EXPECT_EQ(language_path("some/file", gpu).value(), "some/file");
  // None comes with Tessera for devices of OpenCL.
  const target::Target opencl = target::find_target("opencl-1.2").value();
  EXPECT_FALSE(language_path(kShipped, opencl).ok());
}

TEST_F(ZeroTrials, ModelsOfKernelsInNetworksJudgeBesideALanguageModel) {
  const std::string arch = options_.target.arch == target::Arch::kAArch64 ? "aarch64" : "x86_64";
  const std::size_t before = shipped_models(folder_, options_.target).size();
  options_.target.threads = 1;
  EXPECT_FALSE(zero_trial_models(kShipped, folder_, options_.target).in_networks);
  EXPECT_FALSE(zero_trial_models(kShipped, "", options_.target).in_networks);
  for (const std::string name : {"-networks-2", "-networks-1"}) {
    fs::copy_file(path_, folder_ + "/" + arch + name + ".safetensors");
  }
  const ZeroTrialModels found = zero_trial_models(kShipped, folder_, options_.target);
  EXPECT_TRUE(found.in_networks);
  ASSERT_EQ(found.paths.size(), 2u);
  EXPECT_EQ(fs::path(found.paths[0]).stem(), arch + "-networks-1");
  EXPECT_EQ(shipped_models(folder_, options_.target).size(), before);
  // What the user names is taken as it is.
  const ZeroTrialModels named = zero_trial_models("some/file", folder_, options_.target);
  EXPECT_FALSE(named.in_networks);
  EXPECT_EQ(named.paths, std::vector<std::string>{"some/file"});
  EXPECT_TRUE(zero_trial_models(kNoModel, folder_, options_.target).paths.empty());
  // They know nothing about several threads.
  options_.target.threads = 8;
  const ZeroTrialModels several = zero_trial_models(kShipped, folder_, options_.target);
  EXPECT_FALSE(several.in_networks);
  EXPECT_EQ(several.paths, model_paths(kShipped, options_.target));
}

TEST(Agreement, TransformsAndIntenseKernelsKeepTheirDefaultsInNetworks) {
  EXPECT_TRUE(may_change(kInNetworks, "contract+add+max", 2, 1));
  EXPECT_TRUE(may_change(kInNetworks, "concat", 0, 1));
  EXPECT_FALSE(may_change(kInNetworks, "conv_winograd+add+max", 2, 1));
  EXPECT_FALSE(may_change(kInNetworks, "conv_transpose+tanh", 2, 1));
  EXPECT_FALSE(may_change(kInNetworks, "conv_transpose_winograd+add", 2, 1));
  EXPECT_FALSE(may_change(kInNetworks, "mul+conv_transpose+tanh", 2, 1));
  EXPECT_FALSE(may_change(kInNetworks, "pad+conv_winograd", 2, 1));
  EXPECT_TRUE(may_change(kInNetworks, "transpose+add", 2, 1));
  EXPECT_FALSE(may_change(kInNetworks, "conv+add", 100, 1));
  EXPECT_TRUE(may_change(Agreement(), "conv_winograd+add+max", 100, 1));
}

}  // namespace
}  // namespace tessera::app
