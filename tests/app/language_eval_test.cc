// Searches on recorded candidates, and on candidates that a made-up machine measures.
#include "tessera/app/study/language_eval.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/study/language_zero.h"
#include "tessera/app/tune/recorded_task.h"
#include "tessera/lang/te/canonical.h"
#include "tessera/learn/lm/columns.h"
#include "tessera/learn/lm/generate.h"
#include "tessera/learn/lm/language_file.h"
#include "tessera/learn/lm/uniform_reader.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/scheduling/decide/walk.h"
#include "tessera/search/policy.h"
#include "tessera/trials/record/database.h"
#include "tests/app/fake_measurer.h"
#include "tests/dataset/dataset_case.h"

namespace tessera::app {
namespace {

std::unique_ptr<space::Space> matmul_space() {
  const te::OpSpec spec = te::parse_op_spec("matmul:M=48,N=64,K=32").value();
  const target::Target target = target::code_target(target::find_target("neoverse-v1").value(), 1);
  return std::make_unique<space::Space>(
      space::make_space(te::make_dag(spec).value(), target).value());
}

std::vector<RecordedTrial> draw_trials(const space::Space& space, std::size_t count) {
  Rng rng(3);
  std::vector<RecordedTrial> out = {{space.preferred(), measure::Outcome::kOk, 1e-6}};
  while (out.size() < count)
    out.push_back({space.sample(rng), measure::Outcome::kOk, 1e-3 * rng.uniform() + 1e-5});
  return out;
}

TEST(RecordedTask, HasWhatWasRecordedAndNothingElse) {
  auto whole = matmul_space();
  const std::vector<RecordedTrial> trials = draw_trials(*whole, 60);
  const RecordedTask task(std::move(whole), trials, /*withheld=*/false);
  std::set<std::string> texts, recorded;
  for (const RecordedTrial& t : trials) texts.insert(task.whole().to_text(t.candidate));
  decide::Enumeration all(*task.recorded());
  for (auto c = all.next(); c; c = all.next()) recorded.insert(task.recorded()->to_text(*c));
  EXPECT_EQ(recorded, texts);
  EXPECT_EQ(task.size(), texts.size());
  EXPECT_EQ(task.best_s(), 1e-6);
  EXPECT_EQ(task.recorded()->preferred(), task.whole().preferred());
}

TEST(RecordedTask, WithheldDefaultsCannotBeProposedButAreKnown) {
  auto whole = matmul_space();
  const RecordedTask task(matmul_space(), draw_trials(*whole, 60), /*withheld=*/true);
  const std::string preferred = whole->to_text(whole->preferred());
  for (const decide::Candidate& c : task.shuffled(1))
    EXPECT_NE(task.recorded()->to_text(c), preferred);
  EXPECT_EQ(task.best_s(), 1e-6);
  const RecordedTask nothing(matmul_space(), draw_trials(*whole, 1), /*withheld=*/true);
  EXPECT_EQ(nothing.recorded(), nullptr);
}

TEST(RecordedTask, ChancesAreThoseOfTheWholeSpace) {
  auto whole = matmul_space();
  const std::vector<RecordedTrial> trials = draw_trials(*whole, 20);
  const RecordedTask task(std::move(whole), trials, /*withheld=*/false);
  lm::UniformReader uniform;
  const std::unique_ptr<lm::Reader> reader = whole_chances(task.whole(), uniform);
  lm::Generator generator(*task.recorded(), *reader, {});
  Rng rng(1);
  const auto made = generator.sample(8, rng, [](const decide::Candidate&) { return true; }).value();
  ASSERT_EQ(made.size(), 8u);
  for (const lm::Generated& g : made) {
    const decide::Sketch& sketch =
        *task.recorded()->sketches()[static_cast<std::size_t>(g.candidate.sketch)];
    // The same answers in the whole space, where each legal value is as likely as the others.
    double expected = -std::log(static_cast<double>(task.recorded()->sketches().size()));
    for (const auto& s : task.whole().sketches()) {
      if (s->name() != sketch.name()) continue;
      for (decide::Walk walk(*s); !walk.done();) {
        expected -= std::log(static_cast<double>(walk.legal().size()));
        walk.take(g.candidate.choice[walk.next()]);
      }
    }
    EXPECT_NEAR(g.log_prob, expected, 1e-3);
  }
}

// Counts what it is asked.
class CountingReader final : public lm::Reader {
 public:
  Result<void> begin(const lm::Subject& subject, int rows, float quality) override {
    ++begun;
    sentences += rows;
    return uniform_.begin(subject, rows, quality);
  }
  Result<std::vector<float>> step(std::span<const lm::Step> steps) override {
    return uniform_.step(steps);
  }
  Result<void> copy_rows(std::span<const std::int32_t> sources) override {
    return uniform_.copy_rows(sources);
  }
  int begun = 0, sentences = 0;

 private:
  lm::UniformReader uniform_;
};

TEST(RecordedTask, RecalledChancesAreReadOnce) {
  auto whole = matmul_space();
  const std::vector<RecordedTrial> trials = draw_trials(*whole, 100);
  const RecordedTask task(std::move(whole), trials, /*withheld=*/false);
  const std::vector<decide::Candidate> all = task.shuffled(2);
  CountingReader counting;
  const std::unique_ptr<lm::Reader> reader = whole_chances(task.whole(), counting);
  const std::vector<double> expected =
      lm::Generator(*task.recorded(), *reader, {}).chances_of(all).value();
  const std::unique_ptr<lm::Reader> recalled = recalled_chances(task, counting).value();
  const int begun = counting.begun;
  lm::Generator generator(*task.recorded(), *recalled, {});
  EXPECT_EQ(generator.chances_of(all).value(), expected);
  Rng rng(1);
  const auto any = [](const decide::Candidate&) { return true; };
  EXPECT_EQ(generator.sample(16, rng, any)->size(), 16u);
  EXPECT_FALSE(generator.beams(4, 4)->empty());
  EXPECT_EQ(counting.begun, begun);
}

TEST(RecordedTask, NoMoreIsDrawnThanThereAre) {
  const std::unique_ptr<space::Space> whole = matmul_space();
  const RecordedTask task(matmul_space(), draw_trials(*whole, 24), /*withheld=*/false);
  std::vector<int> sentences;
  for (const std::size_t known : {std::size_t{0}, task.size()}) {
    const auto reader = std::make_shared<CountingReader>();
    search::PolicyOptions options;
    options.language = reader;
    options.task = task.recorded();
    options.candidates = known;
    const auto policy =
        (*search::find_policy("lm"))->make(*task.recorded(), search::no_scorer(), options);
    EXPECT_EQ(policy->propose(task.size()).size(), task.size());
    sentences.push_back(reader->sentences);
  }
  EXPECT_LT(2 * sentences[1], sentences[0]);
}

class LanguageEvaluation : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = dataset::small_dataset(40);
    options_.data = dataset::test_folder("data");
    ASSERT_TRUE(dataset::save(data_, options_.data).ok());
    options_.networks = {data_.networks[0].name};
    options_.policies = {{"random", "random"}, {"written", "lm+model=none"}};
    options_.trials = {1, 4, 64};
    options_.seeds = 2;
    options_.least_records = 8;
  }

  std::string refusal() const {
    const Result<LanguageEval> eval = evaluate_language(options_);
    return eval.ok() ? "" : eval.error().message;
  }

  dataset::Dataset data_;
  LanguageEvalOptions options_;
};

TEST_F(LanguageEvaluation, SharesGrowWithTrialsUntilAllIsFound) {
  const LanguageEval one = evaluate_language(options_).value();
  EXPECT_GT(one.tasks, 0u);
  ASSERT_EQ(one.policies.size(), 2u);
  for (const PolicyShares& p : one.policies) {
    ASSERT_EQ(p.share.size(), 3u);
    EXPECT_GT(p.share[0], 0);
    EXPECT_LE(p.share[0], p.share[1]);
    EXPECT_LE(p.share[1], p.share[2]);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LE(p.low[i], p.share[i] + 1e-12);
      EXPECT_GE(p.high[i], p.share[i] - 1e-12);
    }
  }
  // More trials than records: what is left below 1 is what only the default reached.
  EXPECT_DOUBLE_EQ(one.policies[0].share[2], one.policies[1].share[2]);
  options_.threads = 3;
  const LanguageEval beside = evaluate_language(options_).value();
  EXPECT_EQ(beside.tasks, one.tasks);
  for (std::size_t p = 0; p < 2; ++p)
    EXPECT_NEAR(beside.policies[p].share[0], one.policies[p].share[0], 1e-12);
}

TEST_F(LanguageEvaluation, MeasuresWhatSearchesProposeOnceEach) {
  options_.measured = true;
  options_.target = target::code_target(target::find_target("neoverse-v1").value(), 1);
  options_.most_tasks = 1;
  std::map<std::string, double> seen;
  std::set<std::string> in_turns;
  TuneOptions fake;
  use_answers(
      [&](const measure::Trial& trial, bool side_by_side, measure::Measurement* m) {
        const std::string text = schedule::to_text(trial.steps);
        m->outcome = measure::Outcome::kOk;
        m->samples_s = {2e-3};
        if (side_by_side) {
          in_turns.insert(text);
          if (seen.contains(text)) m->samples_s = {1e-3 + seen[text]};
          return;
        }
        EXPECT_TRUE(seen.emplace(text, 1e-3 / static_cast<double>(seen.size() + 1)).second);
        m->samples_s = {seen[text]};
      },
      &fake);
  options_.start_measurer = fake.start_measurer;
  const LanguageEval eval = evaluate_language(options_).value();
  EXPECT_EQ(eval.tasks, 1u);
  EXPECT_EQ(eval.candidates, seen.size());
  EXPECT_LT(eval.policies[0].share[0], eval.policies[0].share[2]);
  // What each search takes after each number of trials, and the default.
  EXPECT_GT(in_turns.size(), options_.trials.size());
  ASSERT_EQ(eval.task_times.size(), 1u);
  const TaskTimes& times = eval.task_times[0];
  EXPECT_DOUBLE_EQ(times.default_s, 2e-3);
  EXPECT_GT(times.best_s, 1e-3);
  ASSERT_EQ(times.seconds.size(), eval.policies.size());
  EXPECT_DOUBLE_EQ(times.seconds[0][0][0], 2e-3);
  EXPECT_GE(times.seconds[0][0][2], times.best_s);
}

TEST_F(LanguageEvaluation, GroupsOfThoseThatAreTimedTogetherCompareByTheDefault) {
  options_.measured = true;
  options_.target = target::code_target(target::find_target("neoverse-v1").value(), 1);
  options_.most_tasks = 1;
  options_.trials.resize(64);
  std::iota(options_.trials.begin(), options_.trials.end(), 1);
  std::map<std::string, double> seen, in_turns;
  std::string preferred;
  double slowdown = 0.5;  // of the machine: every group finds it slower
  TuneOptions fake;
  use_answers(
      [&](const measure::Trial& trial, bool side_by_side, measure::Measurement* m) {
        const std::string text = schedule::to_text(trial.steps);
        m->outcome = measure::Outcome::kOk;
        if (!side_by_side) {
          seen.emplace(text, 1e-3 - 1e-6 * static_cast<double>(seen.size()));
          m->samples_s = {seen[text]};
          return;
        }
        if (preferred.empty()) preferred = text;
        if (preferred == text) slowdown *= 2;
        in_turns[text] = text == preferred ? 2e-3 : seen[text];
        m->samples_s = {slowdown * in_turns[text]};
      },
      &fake);
  options_.start_measurer = fake.start_measurer;
  const LanguageEval eval = evaluate_language(options_).value();
  ASSERT_GT(in_turns.size(), measure::kMostCompared);
  EXPECT_GT(slowdown, 1);
  double least = 1;
  for (const auto& [text, s] : in_turns) least = std::min(least, s);
  const TaskTimes& times = eval.task_times.at(0);
  EXPECT_NEAR(times.default_s, 2e-3, 1e-9);
  EXPECT_NEAR(times.best_s, least, 1e-9);
  for (const auto& seeds : times.seconds) {
    for (const auto& found : seeds) EXPECT_LT(found.back(), 1e-3);
  }
}

TEST_F(LanguageEvaluation, StopsWithinATask) {
  options_.measured = true;
  options_.target = target::code_target(target::find_target("neoverse-v1").value(), 1);
  options_.most_tasks = 2;
  options_.database = dataset::test_folder("stopped") + "/eval.db";
  std::filesystem::create_directories(std::filesystem::path(options_.database).parent_path());
  std::size_t measured = 0, wanted = 7;
  TuneOptions fake;
  use_answers(
      [&](const measure::Trial&, bool side_by_side, measure::Measurement* m) {
        m->outcome = measure::Outcome::kOk;
        m->samples_s = {1e-3};
        if (!side_by_side) ++measured;
      },
      &fake);
  options_.start_measurer = fake.start_measurer;
  const auto state = [&] {
    const auto sessions = record::Database::open_read_only(options_.database)->sessions();
    return sessions->back().state;
  };
  for (const std::size_t tasks : {0u, 1u}) {
    // In the middle of the search of a task.
    measured = 0;
    options_.progress = [&](std::size_t done, std::size_t) {
      if (done < tasks) wanted = measured + 7;
      return done < tasks || measured < wanted;
    };
    const LanguageEval eval = evaluate_language(options_).value();
    EXPECT_FALSE(eval.finished);
    EXPECT_EQ(eval.tasks, tasks);
    EXPECT_EQ(eval.task_times.size(), tasks);
    EXPECT_EQ(measured, wanted);
    EXPECT_EQ(eval.policies[0].share.size(), tasks * options_.trials.size());
    EXPECT_EQ(state(), "interrupted");
  }
  options_.progress = {};
  EXPECT_TRUE(evaluate_language(options_)->finished);
  EXPECT_EQ(state(), "done");
}

TEST_F(LanguageEvaluation, OfTheTasksThatAreNamed) {
  const LanguageEval all = evaluate_language(options_).value();
  ASSERT_FALSE(all.task_times.empty());
  options_.tasks = {all.task_times[0].key};
  EXPECT_EQ(evaluate_language(options_)->task_times[0].seconds, all.task_times[0].seconds);
  // Also beside one that there is.
  options_.tasks.emplace_back("0123456789abcdef");
  EXPECT_EQ(refusal(), "no task of " + options_.networks[0] + " has the key 0123456789abcdef");
}

// A language model with fresh weights.
std::string fresh_language(const std::string& folder) {
  lm::TrainedLanguage model;
  model.spec = lm::make_language_spec({{"width", 16}, {"layers", 1}, {"heads", 2}, {"ffn", 16}},
                                      lm::kWordNumbers, lm::kValueNumbers)
                   .value();
  model.weights = lm::initial_weights(model.spec, 1).value();
  model.schema = lm::schema();
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/language.safetensors";
  EXPECT_TRUE(lm::save_language(model, lm::WeightStorage::kF16, path).ok());
  return path;
}

// Samples need not have the default among them.
void add_defaults(dataset::Dataset* data) {
  for (std::size_t t = 0; t < data->tasks.size(); ++t) {
    const target::Target target =
        target::code_target(target::find_target("neoverse-v1").value(), 1);
    const te::Dag dag = te::dag_from_text(data->tasks[t].definition).value();
    const space::Space space = space::make_space(dag, target).value();
    dataset::Example e;
    e.task = static_cast<std::int32_t>(t);
    e.candidate = space.to_text(space.preferred());
    e.schedule = schedule::to_text(space.schedule(space.preferred()).value());
    e.outcome = "ok";
    e.seconds = 1.5e-5F;
    data->examples.push_back(std::move(e));
  }
  std::stable_sort(data->examples.begin(), data->examples.end(),
                   [](const auto& a, const auto& b) { return a.task < b.task; });
}

TEST_F(LanguageEvaluation, NetworksTakeTheFasterOfTheirDefaultsAndWhatWasFound) {
  add_defaults(&data_);
  options_.data = dataset::test_folder("networks with defaults");
  ASSERT_TRUE(dataset::save(data_, options_.data).ok());
  const LanguageEval eval = evaluate_language(options_).value();
  ASSERT_FALSE(eval.networks.empty());
  for (const NetworkTimes& n : eval.networks) {
    EXPECT_EQ(n.name, options_.networks[0]);
    EXPECT_GT(n.tasks, 0u);
    EXPECT_GT(n.best_s, 0);
    ASSERT_EQ(n.seconds.size(), 2u);
    for (const std::vector<double>& times : n.seconds) {
      double before = n.default_s;
      for (const double s : times) {
        EXPECT_LE(s, before * (1 + 1e-9));
        EXPECT_GE(s, n.best_s * (1 - 1e-9));
        before = s;
      }
    }
  }
}

TEST_F(LanguageEvaluation, WhatWasCutShortIsNeverFasterThanTheBestKnown) {
  add_defaults(&data_);
  // Losers of another session, each cut short before the best of this one would have ended.
  for (std::size_t i = 0; i < data_.examples.size(); ++i) {
    dataset::Example& e = data_.examples[i];
    if (e.outcome != "ok" || e.seconds == 1.5e-5F || i % 2 == 0) continue;
    e.outcome = "censored";
    e.seconds = 1e-7F;
  }
  options_.data = dataset::test_folder("cut short");
  ASSERT_TRUE(dataset::save(data_, options_.data).ok());
  const LanguageEval eval = evaluate_language(options_).value();
  ASSERT_FALSE(eval.networks.empty());
  for (const NetworkTimes& n : eval.networks) {
    for (const std::vector<double>& times : n.seconds) {
      for (const double s : times) EXPECT_GE(s, n.best_s * (1 - 1e-9));
    }
  }
  // With everything found they tell nothing: what counts was timed to the end.
  options_.policies.resize(1);
  const double all = evaluate_language(options_)->policies[0].share[2];
  std::erase_if(data_.examples, [](const dataset::Example& e) { return e.outcome == "censored"; });
  options_.data = dataset::test_folder("not cut short");
  ASSERT_TRUE(dataset::save(data_, options_.data).ok());
  EXPECT_NEAR(evaluate_language(options_)->policies[0].share[2], all, 1e-9);
}

TEST_F(LanguageEvaluation, ZeroTrialsAreStudiedByWhatTheRecordsTell) {
  if (weights_folder().empty()) GTEST_SKIP() << "no cost model beside the tests";
  add_defaults(&data_);
  ZeroStudyOptions zero;
  zero.data = dataset::test_folder("with defaults");
  ASSERT_TRUE(dataset::save(data_, zero.data).ok());
  zero.networks = options_.networks;
  zero.machine = "neoverse-v1";
  const target::Target machine = target::code_target(target::find_target("neoverse-v1").value(), 1);
  zero.language = fresh_language(dataset::test_folder("weights"));
  zero.margins = {-100, 0.5, 100};
  zero.evidence = {0};
  zero.threads = 2;
  const Result<ZeroStudy> study = study_zero_trials(zero);
  ASSERT_TRUE(study.ok()) << study.error().message;
  EXPECT_GT(study->tasks, 0u);
  EXPECT_GE(study->best_gain, 1);
  ASSERT_EQ(study->rows.size(), 6u);
  for (const ZeroStudyRow& row : study->rows) {
    EXPECT_LE(row.changed, study->tasks);
    EXPECT_LE(row.slower, row.changed);
    EXPECT_LE(row.gain, study->best_gain + 1e-9);
    EXPECT_LE(row.worst, 1);
  }
  for (const std::size_t never : {2u, 5u}) {
    EXPECT_EQ(study->rows[never].changed, 0u);
    EXPECT_DOUBLE_EQ(study->rows[never].gain, 1);
  }
  ASSERT_EQ(study->networks.size(), 1u);
  EXPECT_EQ(study->networks[0].name, options_.networks[0]);
  EXPECT_GT(study->networks[0].tasks, 0u);
  EXPECT_GE(study->networks[0].chosen_s, study->networks[0].best_s);
  // Who must agree changes no more.
  EXPECT_LE(study->rows[3].changed, study->rows[0].changed);
  // Tasks that validated the cost model, which must say so.
  nn::TrainedNetwork judge = nn::load_network(model_paths(kShipped, machine).front()).value();
  for (const char* note : {"training_tasks", "validation_tasks"}) judge.notes.erase(note);
  zero.cost_model = dataset::test_folder("judge") + ".safetensors";
  ASSERT_TRUE(nn::save_network(judge, zero.cost_model).ok());
  zero.validation = true;
  EXPECT_NE(
      study_zero_trials(zero).error().message.find("do not list the tasks that it was trained on"),
      std::string::npos);
  const std::vector<std::string> keys = data_.tasks_of(options_.networks).value();
  const std::set<std::string> all(keys.begin(), keys.end());
  nn::note_tasks({}, all, &judge.notes);
  ASSERT_TRUE(nn::save_network(judge, zero.cost_model).ok());
  const Result<ZeroStudy> validated = study_zero_trials(zero);
  ASSERT_TRUE(validated.ok()) << validated.error().message;
  EXPECT_EQ(validated->tasks, study->tasks);
  EXPECT_TRUE(validated->networks.empty());
  // What it learnt from too does not count.
  nn::note_tasks(all, all, &judge.notes);
  ASSERT_TRUE(nn::save_network(judge, zero.cost_model).ok());
  EXPECT_NE(study_zero_trials(zero).error().message.find("recorded default"), std::string::npos);
  zero.cost_model = kShipped;
  zero.validation = false;
  zero.machine = "no such machine";
  EXPECT_NE(study_zero_trials(zero).error().message.find("no task of these networks"),
            std::string::npos);
  zero.margins.clear();
  EXPECT_NE(study_zero_trials(zero).error().message.find("needs margins"), std::string::npos);
}

TEST_F(LanguageEvaluation, RefusesWhatItCannotJudge) {
  options_.trials = {4, 1};
  EXPECT_NE(refusal().find("ascending numbers of trials"), std::string::npos) << refusal();
  options_.trials = {1};
  options_.least_records = 100000;
  EXPECT_NE(refusal().find("no task of these networks"), std::string::npos) << refusal();
  options_.least_records = 8;
  options_.policies = {{"x", "luck"}};
  EXPECT_NE(refusal().find("luck"), std::string::npos) << refusal();
  options_.policies = {{"x", "lm+language=/no/such.safetensors"}};
  EXPECT_NE(refusal().find("/no/such.safetensors"), std::string::npos) << refusal();
  options_.policies = {{"x", "random"}};
  options_.networks = {"nobody"};
  EXPECT_NE(refusal().find("nobody"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace tessera::app
