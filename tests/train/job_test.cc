#include "tessera/learn/train/job.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/learn/dataset/training.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/support/files.h"
#include "tessera/support/npz.h"
#include "tessera/support/rng.h"

namespace tessera::train {
namespace {

// Two networks of foreign tasks, measured on two machines: the longer the innermost part of a
// split, the faster.
dataset::Dataset foreign_dataset() {
  dataset::Dataset data;
  data.machines = {{"llvm -mcpu=core-avx2", 1}, {"llvm -mcpu=cortex-a72", 1}};
  data.networks = {{"first", {}}, {"second", {}}};
  Rng rng(1);
  for (std::int32_t t = 0; t < 8; ++t) {
    const std::string key = fmt::format("[\"task{}\", {}]", t, 16 << t);
    data.tasks.push_back({key, fmt::format("task{}", t), "ansor", key, 1e6, 1e4});
    data.networks[t < 6 ? 0 : 1].weights[key] = 1;
    for (int i = 0; i < 40; ++i) {
      const std::int64_t inner = std::int64_t{1} << rng.below(7);
      dataset::Example example{.task = t, .machine = i % 2};
      example.candidate =
          fmt::format(R"([["SP",2,0,{},[4,{}],1],["AN",2,{},0]])", 512 + i, inner, rng.below(3));
      example.outcome = i % 9 == 4 ? "build_failed" : "ok";
      example.seconds = i % 9 == 4 ? 0.0F : 1e-3F / static_cast<float>(inner);
      data.examples.push_back(example);
    }
  }
  return data;
}

class JobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "tessera_train_job_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    ASSERT_TRUE(dataset::save(foreign_dataset(), folder_ + "/data").ok());
    flags_.data = folder_ + "/data";
    flags_.model = "sequence";
    flags_.hyper = "hidden=16,ffn=16,heads=2,layers=1";
    flags_.holdout = "second";
    flags_.train.epochs = 20;
    flags_.train.batch = 64;
    flags_.train.list = 16;
    flags_.train.trainee.threads = 1;
    flags_.lr = 5e-3;
    flags_.output = folder_ + "/network.safetensors";
    flags_.scores = folder_ + "/scores.npz";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  Flags flags_;
  Library library_;
  std::atomic<bool> stop_ = false;
};

TEST_F(JobTest, TrainsMeasuresAndWrites) {
  ASSERT_TRUE(resolve(flags_).ok());
  const Result<JobResult> result = run_job(flags_, library_, stop_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GT(result->test.average.pairwise, 0.8);
  const Result<nn::TrainedNetwork> network = nn::load_network(flags_.output);
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->spec.network, "sequence");
  EXPECT_EQ(network->notes.at("holdout"), "second");
  EXPECT_EQ(network->notes.at("dataset").size(), 16u);
  EXPECT_NE(network->notes.at("targets").find("cortex-a72"), std::string::npos);
  const Result<NamedTensors> scores = read_npz(flags_.scores);
  ASSERT_TRUE(scores.ok()) << scores.error().message;
  ASSERT_EQ(scores->size(), 3);
  for (const NamedTensor& entry : *scores) EXPECT_EQ(entry.tensor.shape(), Shape{320});
  const auto json = nlohmann::json::parse(to_json(flags_, *result).dump());
  EXPECT_EQ(json["model"], "sequence");
  EXPECT_EQ(json["test"]["networks"].size(), 1);
  EXPECT_EQ(json["test"]["networks"]["second"]["tasks"], 2);
  EXPECT_NE(to_text(*result).find("test: top-1"), std::string::npos);
}

TEST_F(JobTest, OneMachineAndOneShareOfTheTasksCanBeChosen) {
  flags_.machine = "cortex";
  flags_.examples.most_tasks = 3;
  flags_.examples.most_per_task = 20;
  flags_.train.epochs = 1;
  ASSERT_TRUE(resolve(flags_).ok());
  const Result<JobResult> result = run_job(flags_, library_, stop_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const std::map<std::string, std::string>& notes = result->trained.network.notes;
  EXPECT_EQ(notes.at("targets").find("core-avx2"), std::string::npos);
  EXPECT_LE(std::stoi(notes.at("tasks")), 3);
  EXPECT_LE(std::stoi(notes.at("records")), 60);
}

TEST_F(JobTest, LeavesTheOutputAloneWhenNoEpochWasBetter) {
  flags_.train.epochs = 3;
  ASSERT_TRUE(resolve(flags_).ok());
  stop_ = true;
  int begun = 0;
  const Result<JobResult> stopped = run_job(flags_, library_, stop_, [&] { ++begun; });
  EXPECT_EQ(begun, 1);
  ASSERT_TRUE(stopped.ok()) << stopped.error().message;
  EXPECT_TRUE(stopped->trained.interrupted);
  EXPECT_FALSE(stopped->trained.improved);
  EXPECT_FALSE(std::filesystem::exists(flags_.output));
  EXPECT_EQ(to_json(flags_, *stopped).at("output").text(), "");
  EXPECT_EQ(unimproved_note(flags_, stopped->trained),
            "stopped before the first epoch was over: " + flags_.output + " is not written\n");
  stop_ = false;
  const Result<JobResult> trained = run_job(flags_, library_, stop_);
  ASSERT_TRUE(trained.ok()) << trained.error().message;
  EXPECT_EQ(unimproved_note(flags_, trained->trained), "");
  const std::string before = read_file(flags_.output).value();
  flags_.train.init = flags_.output;
  flags_.model.clear();
  flags_.hyper.clear();
  flags_.lr = 1e-30;  // nothing changes
  ASSERT_TRUE(resolve(flags_).ok());
  const Result<JobResult> tuned = run_job(flags_, library_, stop_);
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  EXPECT_FALSE(tuned->trained.improved);
  EXPECT_EQ(read_file(flags_.output).value(), before);
  EXPECT_NE(unimproved_note(flags_, tuned->trained).find("no epoch was better than"),
            std::string::npos);
}

TEST_F(JobTest, FineTuningRemembersWhatWasHeldOutBefore) {
  flags_.train.epochs = 1;
  ASSERT_TRUE(resolve(flags_).ok());
  ASSERT_TRUE(run_job(flags_, library_, stop_).ok());
  flags_.train.init = flags_.output;
  flags_.holdout = "first";
  flags_.model.clear();
  flags_.hyper.clear();
  ASSERT_TRUE(resolve(flags_).ok());
  const Result<JobResult> tuned = run_job(flags_, library_, stop_);
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  const std::string how = dataset::to_note(flags_.examples);
  EXPECT_EQ(nn::trainings(tuned->trained.network.notes),
            (std::vector<nn::TrainingSplit>{{"by-network", "first", how},
                                            {"by-network", "second", how}}));
  EXPECT_TRUE(nn::training_tasks(tuned->trained.network.notes).has_value());
}

TEST_F(JobTest, RefusesEarlyWhatCouldNotBeWrittenOrRead) {
  flags_.output = folder_ + "/absent/network.safetensors";
  ASSERT_TRUE(resolve(flags_).ok());
  const Result<JobResult> unwritable = run_job(flags_, library_, stop_);
  ASSERT_FALSE(unwritable.ok());
  EXPECT_NE(unwritable.error().message.find("there is no folder"), std::string::npos);
  flags_.output.clear();
  flags_.model = "mlp";  // reads statements, which foreign records have not
  flags_.hyper.clear();
  ASSERT_TRUE(resolve(flags_).ok());
  EXPECT_FALSE(run_job(flags_, library_, stop_).ok());
}

}  // namespace
}  // namespace tessera::train
