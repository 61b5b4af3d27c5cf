// Models of every kind on a small dataset of real candidates with made-up times.
#include "tessera/app/study/eval.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/learn/dataset/candidate_rows.h"
#include "tessera/learn/dataset/features.h"
#include "tessera/learn/dataset/training.h"
#include "tessera/learn/infer/network_scorer.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/support/files.h"
#include "tessera/support/npz.h"
#include "tests/dataset/dataset_case.h"
#include "tests/infer/random_network.h"
#include "tests/testing/xgboost.h"

namespace tessera::app {
namespace {

using dataset::Dataset;
using Kind = EvalSource::Kind;

constexpr std::size_t kPerTask = 24;

class Eval : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = dataset::small_dataset(kPerTask);
    folder_ = dataset::test_folder("files");
    std::filesystem::create_directories(folder_);
    options_.data = folder_ + "/data";
    options_.threads = 2;
    save();
  }

  void save() {
    std::filesystem::remove_all(options_.data);
    const Result<void> saved = dataset::save(data_, options_.data);
    ASSERT_TRUE(saved.ok()) << saved.error().message;
  }

  std::vector<float> labels() const {
    std::vector<float> best(data_.tasks.size(), std::numeric_limits<float>::infinity()), out;
    const auto task = [](const dataset::Example& e) { return static_cast<std::size_t>(e.task); };
    for (const dataset::Example& e : data_.examples) {
      if (e.seconds > 0) best[task(e)] = std::min(best[task(e)], e.seconds);
    }
    for (const dataset::Example& e : data_.examples) {
      out.push_back(e.seconds > 0 ? best[task(e)] / e.seconds : 0);
    }
    return out;
  }

  std::string write_scores(const std::string& name, const std::vector<float>& scores,
                           const char* array = "score") {
    HostTensor tensor(DType::kF32, {static_cast<std::int64_t>(scores.size())});
    std::copy(scores.begin(), scores.end(), tensor.as<float>());
    const std::string path = folder_ + "/" + name + ".npz";
    EXPECT_TRUE(write_npz(path, {{array, tensor}}).ok());
    return path;
  }

  // A network of random weights that reads what the dataset has.
  nn::TrainedNetwork make_network(const std::string& name) const {
    const feature::Rows rows = nn::find_network(name).value()->rows;
    nn::TrainedNetwork network = infer::testing::random_network(
        name, static_cast<std::int64_t>(dataset::row_names(rows).size()),
        static_cast<std::int64_t>(dataset::context_names(rows).size()), false, 3);
    network.row_schema = dataset::row_schema(rows);
    network.context_schema = dataset::context_schema(rows);
    network.notes["loss"] = "listmle";
    return network;
  }

  std::string save_network(const nn::TrainedNetwork& network, const std::string& name) const {
    const std::string path = folder_ + "/" + name + ".safetensors";
    const Result<void> saved = nn::save_network(network, path);
    EXPECT_TRUE(saved.ok()) << (saved.ok() ? "" : saved.error().message);
    return path;
  }

  void add(Kind kind, const std::string& path, const std::string& name = "",
           const std::string& loss = "") {
    options_.models.push_back({kind, path, name, loss, ""});
  }

  EvalResult evaluate() const {
    Result<EvalResult> result = evaluate_models(options_);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? std::move(*result) : EvalResult{};
  }

  void expect_error(ErrorCode code, const std::string& words) const {
    const Result<EvalResult> result = evaluate_models(options_);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_NE(result.error().message.find(words), std::string::npos) << result.error().message;
  }

  Dataset data_;
  std::string folder_;
  EvalOptions options_;
};

TEST_F(Eval, ScoresOfAnOracleAndOfItsOpposite) {
  std::vector<float> opposite;
  for (const float y : labels()) opposite.push_back(-y);
  add(Kind::kScores, write_scores("oracle", labels()));
  add(Kind::kScores, write_scores("fool", opposite), "named", "rank");
  const EvalResult r = evaluate();
  EXPECT_EQ(r.records, 2 * (kPerTask - kPerTask / 8));
  EXPECT_EQ(r.tasks, 2u);
  EXPECT_EQ(r.networks, std::vector<std::string>{"resnet50"});
  ASSERT_EQ(r.models.size(), 2u);
  EXPECT_EQ(r.models[0].name, "oracle");
  EXPECT_EQ(r.models[0].loss, "-");
  EXPECT_EQ(r.models[0].evaluation.top1, 1);
  EXPECT_EQ(r.models[0].evaluation.average.pairwise, 1);
  EXPECT_EQ(r.models[1].name, "named");
  EXPECT_EQ(r.models[1].loss, "rank");
  EXPECT_EQ(r.models[1].evaluation.average.pairwise, 0);
  EXPECT_LT(r.models[1].evaluation.top5, 0.8);
  ASSERT_EQ(r.baselines.size(), 2u);
  EXPECT_EQ(r.baselines[0].name, "random");
  EXPECT_GT(r.baselines[0].evaluation.average.pairwise, 0.2);
  EXPECT_LT(r.baselines[0].evaluation.average.pairwise, 0.8);
}

// Regressions are read in their own unit, orders after the best line.
TEST_F(Eval, ValuesAreComparedInTheUnitOfLabels) {
  std::vector<float> logits, lines;
  for (const float y : labels()) {
    const float inside = std::min(y, 0.9999f);
    logits.push_back(y > 0 ? std::log(inside / (1 - inside)) : 0);
    lines.push_back(50 - 7 * y);
  }
  add(Kind::kScores, write_scores("a", logits), "a", "mse");
  add(Kind::kScores, write_scores("b", lines), "b", "rank");
  add(Kind::kScores, write_scores("c", labels()), "c", "regression");
  const EvalResult r = evaluate();
  for (const ModelEvaluation& m : r.models) {
    EXPECT_NEAR(m.evaluation.average.rmse, 0, 1e-3) << m.name;
    EXPECT_NEAR(m.evaluation.average.r2, 1, 1e-3) << m.name;
    EXPECT_EQ(m.line, m.name == "b");
  }
  // The line turns the order around; what orders means is judged without it.
  EXPECT_EQ(r.models[1].evaluation.average.pairwise, 0);
}

class EvalNetwork : public Eval, public ::testing::WithParamInterface<const char*> {};

// The same as scoring the features by hand; those that are kept are made once.
TEST_P(EvalNetwork, IsScoredByCompiledCode) {
  const nn::TrainedNetwork network = make_network(GetParam());
  add(Kind::kWeights, save_network(network, "net"));
  options_.features = folder_ + "/kept";
  const EvalResult r = evaluate();
  ASSERT_EQ(r.models.size(), 1u);
  EXPECT_EQ(r.models[0].name, GetParam());
  EXPECT_EQ(r.models[0].network, GetParam());
  EXPECT_EQ(r.models[0].loss, "listmle");
  EXPECT_EQ(r.models[0].notes.at("loss"), "listmle");
  EXPECT_EQ(r.unreadable, 0u);

  const feature::Rows rows = nn::find_network(GetParam()).value()->rows;
  const auto store = dataset::open_features(
      data_, rows, options_.features, 1,
      [](std::size_t, std::size_t) { ADD_FAILURE() << "features are made twice"; });
  ASSERT_TRUE(store.ok()) << store.error().message;
  feature::FeatureSet set;
  set.columns = static_cast<std::size_t>((*store)->columns());
  set.context_columns = static_cast<std::size_t>((*store)->context_columns());
  for (std::size_t i = 0; i < (*store)->size(); ++i) {
    const dataset::FeatureView v = (**store)[i];
    set.add(v.rows);
    set.context.insert(set.context.end(), v.context.begin(), v.context.end());
    set.parents.insert(set.parents.end(), v.parents.begin(), v.parents.end());
  }
  auto scorer = infer::NetworkScorer::make(network, 1);
  ASSERT_TRUE(scorer.ok()) << scorer.error().message;
  const auto outputs = (*scorer)->run(set);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  const auto split = dataset::split(data_, options_.split);
  ASSERT_TRUE(split.ok());
  const dataset::Evaluation want =
      dataset::evaluate(data_, *split, dataset::kTest, outputs->score, {"resnet50"});
  EXPECT_EQ(r.models[0].evaluation.top1, want.top1);
  EXPECT_EQ(r.models[0].evaluation.top5, want.top5);
  EXPECT_EQ(r.models[0].evaluation.average.pairwise, want.average.pairwise);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EvalNetwork, ::testing::Values("mlp", "treegru"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_F(Eval, FeaturesNeedNotBeKept) {
  add(Kind::kWeights, save_network(make_network("mlp"), "net"));
  const EvalResult temporary = evaluate();
  options_.features = folder_ + "/kept";
  const EvalResult kept = evaluate();
  EXPECT_EQ(temporary.models[0].evaluation.top1, kept.models[0].evaluation.top1);
  EXPECT_EQ(temporary.models[0].evaluation.average.kendall,
            kept.models[0].evaluation.average.kendall);
}

TEST_F(Eval, SaysWhatWasSeenInTraining) {
  const auto evaluated = [&](const nn::Notes& notes) {
    nn::TrainedNetwork network = make_network("mlp");
    network.notes.insert(notes.begin(), notes.end());
    options_.models.clear();
    add(Kind::kWeights, save_network(network, "net"));
    return evaluate();
  };
  const auto key = [&](std::size_t task) { return data_.tasks[task].key; };
  nn::Notes noted;
  nn::note_training({"by-network", "tenset5", dataset::to_note({})}, nullptr, &noted);
  // Tested: resnet50, by the default hold-out: the first two tasks.
  nn::note_tasks({key(2)}, {}, &noted);
  const EvalResult same = evaluated(noted);
  EXPECT_EQ(same.models[0].seen, 0u);
  EXPECT_EQ(same.models[0].notes.count("seen_in_training"), 0u);
  EXPECT_EQ(seen_in_training(same), "");
  // Learnt from, or chosen by.
  for (const bool validated : {false, true}) {
    nn::note_tasks({key(validated ? 2 : 0)}, {key(validated ? 0 : 2)}, &noted);
    const EvalResult other = evaluated(noted);
    EXPECT_EQ(other.models[0].seen, other.records / 2);
    EXPECT_EQ(other.models[0].notes.at("seen_in_training"), fmt::format("{}", other.records / 2));
    EXPECT_EQ(seen_in_training(other),
              fmt::format("mlp listmle: {} of {} test records were seen in training, which held "
                          "out by-network tenset5\n",
                          other.records / 2, other.records));
  }
  // What does not tell its tasks is not believed.
  for (const nn::Notes& silent :
       {nn::Notes{}, nn::Notes{{"split", "by_network"}, {"holdout", "tenset5"}}}) {
    const EvalResult r = evaluated(silent);
    EXPECT_FALSE(r.models[0].seen.has_value());
    EXPECT_EQ(seen_in_training(r),
              "mlp listmle: its notes do not list the tasks that it was trained on; the test "
              "records may be of some\n");
  }
}

// A split by reductions validates on other tasks than one by keys: what is seen follows the notes.
TEST_F(Eval, WhatWasSeenFollowsTheSplitOfTheTraining) {
  for (const bool by_reduction : {false, true}) {
    dataset::SplitOptions how;
    how.kind = dataset::SplitKind::kByTask;
    how.test = 0.4;
    how.seed = 7;
    how.by_reduction = by_reduction;
    const dataset::Split split = dataset::split(data_, how).value();
    nn::TrainedNetwork network = make_network("mlp");
    nn::note_training({"by-task", "", dataset::to_note(how)}, nullptr, &network.notes);
    nn::note_tasks(dataset::keys_of(data_, split, dataset::kTrain),
                   dataset::keys_of(data_, split, dataset::kValidation), &network.notes);
    options_.models.clear();
    add(Kind::kWeights, save_network(network, "net"));
    const EvalResult r = evaluate();
    // Tested: the tasks of resnet50.
    std::size_t want = 0;
    for (std::size_t i = 0; i < data_.examples.size(); ++i) {
      const dataset::Example& e = data_.examples[i];
      const bool tested = e.seconds > 0 && e.task < 2;
      want += tested && split.part[i] <= dataset::kValidation ? 1 : 0;
    }
    EXPECT_EQ(r.models[0].seen, want) << by_reduction;
  }
}

TEST_F(Eval, WithinTasksCandidatesAreSeen) {
  dataset::SplitOptions how;
  how.kind = dataset::SplitKind::kWithinTask;
  how.test = 0.5;
  nn::TrainedNetwork network = make_network("mlp");
  nn::note_training({"within-task", "", dataset::to_note(how)}, nullptr, &network.notes);
  add(Kind::kWeights, save_network(network, "net"));
  options_.split = how;
  EXPECT_EQ(evaluate().models[0].seen, 0u);
  options_.split.seed = 2;
  const EvalResult other = evaluate();
  EXPECT_GT(other.models[0].seen, 0u);
  EXPECT_LT(other.models[0].seen, other.records);
}

TEST_F(Eval, TreesThatWereSaved) {
  model::ModelOptions model_options;
  model_options.schema = dataset::row_schema(feature::Rows::kStatement);
  auto trees = model::make_model("gbt", model_options);
  if (!testing::has_trees(trees)) GTEST_SKIP() << trees.error().message;
  const auto store =
      dataset::open_features(data_, feature::Rows::kStatement, folder_ + "/statement", 1);
  ASSERT_TRUE(store.ok()) << store.error().message;
  model::TrainingSet set;
  set.features.columns = static_cast<std::size_t>((*store)->columns());
  for (std::size_t i = 0; i < (*store)->size(); ++i) {
    const dataset::FeatureView v = (**store)[i];
    set.features.add(v.rows);
    set.labels.push_back(v.label);
    set.groups.push_back(v.task);
  }
  ASSERT_TRUE((*trees)->fit(set, {}).ok());
  const std::string path = folder_ + "/trees";
  ASSERT_TRUE((*trees)->save(path).ok());
  add(Kind::kWeights, path);
  const EvalResult r = evaluate();
  ASSERT_EQ(r.models.size(), 1u);
  EXPECT_EQ(r.models[0].name, "gbt");
  EXPECT_EQ(r.models[0].loss, "rank");
  // They saw these labels: better than a guess.
  EXPECT_GT(r.models[0].evaluation.average.pairwise, 0.6);
}

TEST_F(Eval, TheDefaultScheduleIsABaselineWhereItWasMeasured) {
  double best = 0, chosen = 0;
  for (std::size_t t = 0; t < data_.tasks.size(); ++t) {
    const auto space = space::make_space(te::dag_from_text(data_.tasks[t].definition).value(),
                                         target::target_from_text(data_.machines[0].target).value())
                           .value();
    const std::string text = schedule::to_text(space.schedule(space.preferred()).value());
    const auto& weights = data_.networks[0].weights;
    const double uses = weights.contains(data_.tasks[t].key) ? weights.at(data_.tasks[t].key) : 0;
    float fastest = 1;
    for (dataset::Example& e : data_.examples) {
      if (e.task != static_cast<std::int32_t>(t)) continue;
      if (e.schedule == text) e.schedule += " ";  // no longer the default
      if (e.seconds > 0) fastest = std::min(fastest, e.seconds);
    }
    const auto first = std::find_if(data_.examples.begin(), data_.examples.end(), [&](auto& e) {
      return e.task == static_cast<std::int32_t>(t) && e.seconds > 2 * 1e-6f + fastest;
    });
    ASSERT_NE(first, data_.examples.end());
    first->schedule = text;
    first->candidate = "by another name";
    best += uses * static_cast<double>(fastest);
    chosen += uses * static_cast<double>(first->seconds);
  }
  save();
  add(Kind::kScores, write_scores("oracle", labels()));
  const EvalResult r = evaluate();
  ASSERT_EQ(r.baselines.size(), 2u);
  EXPECT_EQ(r.baselines[1].name, "default");
  EXPECT_NEAR(r.baselines[1].evaluation.top1, best / chosen, 1e-6);
  EXPECT_EQ(r.default_tasks, 2u);
}

TEST_F(Eval, TasksWithoutTheDefaultAreLeftOutOfItsRow) {
  for (dataset::Example& e : data_.examples) {
    if (e.schedule == default_of(data_, e).schedule) e.schedule += " ";
  }
  dataset::Example& of_product = data_.examples[0];
  of_product.schedule = default_of(data_, of_product).schedule;
  save();
  add(Kind::kScores, write_scores("oracle", labels()));
  const EvalResult r = evaluate();
  EXPECT_EQ(r.default_tasks, 1u);
  EXPECT_EQ(r.baselines[1].evaluation.average.records,
            static_cast<std::int64_t>(kPerTask - kPerTask / 8));
}

TEST_F(Eval, SaysWhatOfANetworkHasNoRecords) {
  add(Kind::kScores, write_scores("oracle", labels()));
  EXPECT_EQ(not_covered(evaluate()), "");
  dataset::TaskInfo unmeasured = data_.tasks[0];
  unmeasured.key = "unmeasured";
  unmeasured.name = "projection";
  data_.tasks.push_back(unmeasured);
  data_.networks[0].weights["unmeasured"] = 2;
  save();
  const EvalResult r = evaluate();
  ASSERT_EQ(r.coverage.size(), 1u);
  const double product = 2 * data_.tasks[0].flops, convolution = 5 * data_.tasks[1].flops;
  EXPECT_NEAR(r.coverage[0].missing, product / (2 * product + convolution), 1e-9);
  EXPECT_EQ(
      not_covered(r).rfind("not covered by records:\n  resnet50 on " + r.coverage[0].machine, 0),
      0u)
      << not_covered(r);
}

// The network "tiny" has the product too, and trains.
TEST_F(Eval, GivesFiguresByReduction) {
  dataset::TaskInfo other = data_.tasks[0];  // the same product under another key
  other.key = "other";
  data_.tasks.push_back(other);
  const std::size_t count = data_.examples.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (data_.examples[i].task != 0) continue;
    dataset::Example e = data_.examples[i];
    e.task = 3;
    data_.examples.push_back(std::move(e));
  }
  save();
  add(Kind::kScores, write_scores("oracle", labels()));
  const EvalResult r = evaluate();
  EXPECT_EQ(r.tasks, 2u);
  EXPECT_EQ(r.unseen_tasks, 1u);  // the convolution
  EXPECT_EQ(r.models[0].by_reduction.average.records,
            static_cast<std::int64_t>(kPerTask - kPerTask / 8));
}

TEST_F(Eval, RowsThatReadAlikeAreNamedApart) {
  add(Kind::kScores, write_scores("one", labels()), "mlp", "rank");
  add(Kind::kScores, write_scores("two", labels()), "mlp", "rank");
  add(Kind::kScores, write_scores("three", labels()), "mlp", "mse");
  const EvalResult r = evaluate();
  ASSERT_EQ(r.models.size(), 3u);
  EXPECT_EQ(r.models[0].name, "mlp (one)");
  EXPECT_EQ(r.models[1].name, "mlp (two)");
  EXPECT_EQ(r.models[2].name, "mlp");
}

TEST_F(Eval, RecordsWithoutStepsAreLeftOut) {
  for (dataset::Example& e : data_.examples) e.candidate = "gone: a=1";  // nobody reads it
  data_.examples[0].schedule.clear();
  ASSERT_GT(data_.examples[0].seconds, 0);
  save();
  add(Kind::kWeights, save_network(make_network("mlp"), "net"));
  const EvalResult r = evaluate();
  EXPECT_EQ(r.unreadable, 1u);
  EXPECT_EQ(r.models[0].evaluation.average.records, static_cast<std::int64_t>(r.records) - 1);
}

TEST_F(Eval, NetworksOfOtherFeaturesAreRefused) {
  nn::TrainedNetwork network = make_network("mlp");
  network.row_schema = "0123456789abcdef";
  add(Kind::kWeights, save_network(network, "net"));
  expect_error(ErrorCode::kInvalidArgument, "net.safetensors: made for statement of schema 0123");
}

TEST_F(Eval, SeveralModelsJudgeTogether) {
  const std::string a = save_network(make_network("mlp"), "a");
  const std::string b = save_network(make_network("mha"), "b");
  add(Kind::kWeights, a);
  add(Kind::kWeights, a + "," + a);
  add(Kind::kWeights, a + "," + b);
  add(Kind::kWeights, a + "," + b, "both", "mse");
  const EvalResult result = evaluate();
  ASSERT_EQ(result.models.size(), 4u);
  EXPECT_EQ(result.models[1].name, "mlp x2");
  EXPECT_EQ(result.models[1].loss, "listmle");
  EXPECT_EQ(result.models[1].evaluation.average.pairwise,
            result.models[0].evaluation.average.pairwise);
  EXPECT_EQ(result.models[2].name, "mha+mlp x2");
  EXPECT_EQ(result.models[2].notes.at("loss"), "listmle");
  EXPECT_NE(result.models[2].evaluation.average.pairwise,
            result.models[0].evaluation.average.pairwise);
  EXPECT_EQ(result.models[3].name, "both");
  EXPECT_TRUE(result.models[3].line) << "deviations are no labels";
  options_.models.clear();
  add(Kind::kWeights, a + "," + folder_ + "/absent.safetensors");
  expect_error(ErrorCode::kIo, "absent");
}

TEST_F(Eval, ScoresThatAreNotFiniteAreRefused) {
  nn::TrainedNetwork network = make_network("mlp");
  for (auto& [name, tensor] : network.weights) {
    for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.as<float>()[i] = 3e38f;
  }
  add(Kind::kWeights, save_network(network, "net"));
  expect_error(ErrorCode::kInvalidArgument, "scores are not finite");
}

TEST_F(Eval, FilesThatCannotBeRead) {
  add(Kind::kWeights, folder_ + "/absent.safetensors");
  expect_error(ErrorCode::kIo, "absent.safetensors");
  options_.models[0].path = folder_ + "/text";
  ASSERT_TRUE(write_file(options_.models[0].path, {"no model"}).ok());
  ASSERT_FALSE(evaluate_models(options_).ok());
  options_.models[0] = {Kind::kScores, write_scores("s", labels(), "value"), "", "", ""};
  expect_error(ErrorCode::kInvalidArgument, "no array \"score\"");
  options_.models[0].path = write_scores("short", {1, 2, 3});
  expect_error(ErrorCode::kInvalidArgument, "another dataset");
  std::vector<float> broken = labels();
  broken[0] = std::numeric_limits<float>::quiet_NaN();
  options_.models[0].path = write_scores("broken", broken);
  expect_error(ErrorCode::kInvalidArgument, "example 0 is not finite");
  options_.data = folder_ + "/nowhere";
  expect_error(ErrorCode::kIo, "nowhere");
}

TEST_F(Eval, NothingToTest) {
  add(Kind::kScores, write_scores("oracle", labels()));
  options_.split.holdout = {"unknown"};
  expect_error(ErrorCode::kInvalidArgument, "no network 'unknown'");
  options_.split.holdout = {"tenset5"};
  options_.machine = "triple=riscv";
  expect_error(ErrorCode::kInvalidArgument, "no test records");
  options_.machine = "";
  options_.models[0].machine = "triple=x86_64";
  expect_error(ErrorCode::kInvalidArgument, "machines that the models are for");
}

}  // namespace
}  // namespace tessera::app
