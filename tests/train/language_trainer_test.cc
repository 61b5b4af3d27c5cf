#include "tessera/learn/train/language_trainer.h"

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/learn/train/language_job.h"
#include "tests/train/toy_sentences.h"

namespace tessera::train {
namespace {

LanguageOptions small_options() {
  LanguageOptions options;
  options.train.hyper = {{"width", 24}, {"layers", 2}, {"heads", 2},      {"key_heads", 1},
                         {"ffn", 32},   {"choice", 8}, {"max_prompt", 8}, {"max_answers", 8}};
  options.train.trainee.threads = 1;
  options.train.epochs = 6;
  options.train.batch = 64;
  options.train.lr = 4e-3;
  options.group = 4;
  options.holdout = 0.2;
  return options;
}

LanguageTask toy_task(const LanguageOptions& options, bool known, int each = 40) {
  LanguageTask task;
  task.start = start_language(options).value();
  add_toys(task.sentences, 0, 40, each, known, 7);
  return task;
}

bool same_bytes(const Weights& a, const Weights& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    if (std::memcmp(tensor.data(), b.at(name).data(), tensor.bytes()) != 0) return false;
  }
  return true;
}

TEST(LanguageTrainer, LearnsFromQualitiesWhatIsRightForSubjectsItNeverSaw) {
  LanguageOptions options = small_options();
  options.train.epochs = 20;
  options.train.batch = 32;
  options.train.lr = 2e-3;
  const LanguageTask task = toy_task(options, true);
  const TrainedLanguageRun run = train_language(task, options, nullptr).value();
  EXPECT_GT(run.scores.accuracy, 0.95);
  EXPECT_LT(run.scores.loss, 0.1 * run.scores.uniform_loss);
  EXPECT_NEAR(run.scores.uniform_accuracy, 0.25, 1e-6);
  EXPECT_GT(run.scores.pairs, 0.8);
  EXPECT_LT(run.history.back().loss, run.history.front().loss);
  EXPECT_EQ(run.model.notes.at("recipes"), "all");
}

TEST(LanguageTrainer, FineTuningOnTheBestAndOnPairsPrefersBetterSentences) {
  LanguageOptions options = small_options();
  options.quality = false;
  options.train.epochs = 1;
  options.train.lr = 4e-3;
  LanguageTask task = toy_task(options, true);
  const TrainedLanguageRun base = train_language(task, options, nullptr).value();
  task.start = base.model;
  options.recipe = Recipe::kBest;
  options.best = 0.99;
  options.train.epochs = 20;
  const TrainedLanguageRun best = train_language(task, options, nullptr).value();
  EXPECT_LT(best.scores.loss, base.scores.loss);
  EXPECT_LT(best.sentences, base.sentences);
  EXPECT_EQ(best.model.notes.at("recipes"), "all, best");
  options.recipe = Recipe::kPreference;
  options.train.epochs = 8;
  const TrainedLanguageRun pairs = train_language(task, options, nullptr).value();
  EXPECT_GT(pairs.scores.pairs, base.scores.pairs);
  EXPECT_GT(pairs.scores.pairs, 0.7);
}

TEST(LanguageTrainer, AContrastTellsTheBestFromTheCommon) {
  LanguageOptions options = small_options();
  options.recipe = Recipe::kContrast;
  options.preference.keep = 0.5;
  options.train.epochs = 24;
  options.train.batch = 32;
  const LanguageTask task = toy_task(options, true, 20);
  const TrainedLanguageRun run = train_language(task, options, nullptr).value();
  EXPECT_GT(run.scores.pairs, 0.75);
  EXPECT_GT(run.scores.accuracy, 1.3 * run.scores.uniform_accuracy);
  EXPECT_LT(run.history.back().loss, run.history.front().loss);
  EXPECT_EQ(run.model.notes.at("recipes"), "contrast");
  EXPECT_EQ(run.model.notes.at("quality"), "told");
}

TEST(LanguageTrainer, AResumedRunEndsAsAnUninterruptedOne) {
  LanguageOptions options = small_options();
  options.train.epochs = 2;
  options.round = 7;
  const LanguageTask task = toy_task(options, true, 20);
  const TrainedLanguageRun whole = train_language(task, options, nullptr).value();
  const TrainedLanguageRun again = train_language(task, options, nullptr).value();
  EXPECT_TRUE(same_bytes(whole.model.weights, again.model.weights));

  const std::string folder = ::testing::TempDir() + "tessera_train_language";
  std::filesystem::remove_all(folder);
  options.train.checkpoint = folder;
  options.train.resume = true;
  options.checkpoint_every = 3;
  std::atomic<bool> stop = false;
  const auto halfway = [&](const LanguageReport& r) { stop = r.step >= 7; };
  const TrainedLanguageRun part = train_language(task, options, halfway, &stop).value();
  EXPECT_TRUE(part.interrupted);
  const TrainedLanguageRun rest = train_language(task, options, nullptr).value();
  EXPECT_FALSE(rest.interrupted);
  EXPECT_LT(rest.history.size(), whole.history.size());
  EXPECT_TRUE(same_bytes(whole.model.weights, rest.model.weights));
  EXPECT_EQ(whole.scores.loss, rest.scores.loss);

  options.train.lr *= 2;
  const auto other = train_language(task, options, nullptr);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("is of another run: lr"), std::string::npos)
      << other.error().message;
}

TEST(LanguageTrainer, ALimitEndsARunEarlyWithItsWeights) {
  LanguageOptions options = small_options();
  options.train.epochs = 1000;
  options.limit_s = 1e-6;
  const LanguageTask task = toy_task(options, true, 20);
  const TrainedLanguageRun run = train_language(task, options, nullptr).value();
  EXPECT_FALSE(run.interrupted);
  ASSERT_EQ(run.history.size(), 1u);
  EXPECT_EQ(run.history[0].step, 1);
  EXPECT_EQ(run.model.notes.at("steps"), "1");
}

TEST(LanguageTrainer, ALimitBetweenEpochsKeepsWhatWasLearnt) {
  LanguageOptions options = small_options();
  options.train.epochs = 1'000'000;
  options.round = 1'000'000;
  options.limit_s = 0.05;
  const LanguageTask task = toy_task(options, true, 2);
  const TrainedLanguageRun run = train_language(task, options, nullptr).value();
  ASSERT_EQ(run.history.size(), 1u);
  EXPECT_EQ(run.model.notes.at("steps"), fmt::format("{}", run.history[0].step));
  EXPECT_FALSE(same_bytes(run.model.weights, task.start.weights));
}

TEST(LanguageTrainer, RefusesWhatMakesNoSense) {
  LanguageOptions options = small_options();
  const LanguageTask task = toy_task(options, false, 2);
  const auto message = [&](const LanguageOptions& o) {
    const auto run = train_language(task, o, nullptr);
    return run.ok() ? std::string() : run.error().message;
  };
  LanguageOptions bad = options;
  bad.group = 0;
  EXPECT_NE(message(bad).find("greater than 0"), std::string::npos);
  bad = options;
  bad.holdout = 2;
  EXPECT_NE(message(bad).find("shares"), std::string::npos);
  bad = options;
  bad.recipe = Recipe::kBest;
  EXPECT_NE(message(bad).find("none has a quality"), std::string::npos);
  bad.recipe = Recipe::kPreference;
  EXPECT_NE(message(bad).find("none has a quality"), std::string::npos);
  bad.recipe = Recipe::kContrast;
  EXPECT_NE(message(bad).find("none has a quality"), std::string::npos);
  bad.quality = false;
  EXPECT_NE(message(bad).find("a contrast needs qualities"), std::string::npos);
  bad.recipe = Recipe::kPreference;
  bad.preference.gap = 0;
  EXPECT_NE(message(bad).find("pairs need a gap"), std::string::npos);
  bad = options;
  bad.train.resume = true;
  EXPECT_NE(message(bad).find("resuming needs"), std::string::npos);
  bad.train.trainee.device = "tpu";
  EXPECT_NE(message(bad).find("no device 'tpu'"), std::string::npos);
  EXPECT_FALSE(recipe_from_text("other").ok());
}

TEST(LanguageTrainer, StartsFromAFileOfTheSameSizesAndSchema) {
  LanguageOptions options = small_options();
  lm::TrainedLanguage model = start_language(options).value();
  const std::string path = ::testing::TempDir() + "tessera_train_start.safetensors";
  ASSERT_TRUE(lm::save_language(model, lm::WeightStorage::kF32, path).ok());
  options.train.init = path;
  EXPECT_TRUE(same_bytes(start_language(options)->weights, model.weights));
  options.train.hyper = {{"width", 48}};
  EXPECT_NE(start_language(options).error().message.find("is not of width=48"), std::string::npos);
  model.schema = "another";
  ASSERT_TRUE(lm::save_language(model, lm::WeightStorage::kF32, path).ok());
  options.train.hyper.clear();
  EXPECT_NE(start_language(options).error().message.find("another schema"), std::string::npos);
}

TEST(LanguageJob, ExitsByWhatWentWrong) {
  const std::atomic<bool> stop = false;
  EXPECT_EQ(run_language({"pretrain"}, stop), 2);  // no data
  EXPECT_EQ(run_language({"finetune", "--data", "absent"}, stop), 2);
  EXPECT_EQ(run_language({"pretrain", "--data", "absent", "--threads", "1"}, stop), 2);
  EXPECT_EQ(run_language({"pretrain", "--data", "absent", "--storage", "i8"}, stop), 2);
  EXPECT_EQ(run_language({"pretrain", "--help"}, stop), 0);
}

}  // namespace
}  // namespace tessera::train
