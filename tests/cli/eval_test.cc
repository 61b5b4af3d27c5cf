// tessera eval as its users meet it: tables, JSON for scripts, a plot, and what goes wrong.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/learn/dataset/dataset.h"
#include "tessera/support/npz.h"
#include "tests/cli/process.h"
#include "tests/testing/testing.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::json;

// Three tasks of twenty records, 1 to 20 ms; scores that exchange neighbours, and scores that are
// right.
class Eval : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = write_file("anything", "");
    folder_.resize(folder_.rfind('/'));
    data_ = folder_ + "/data";
    dataset::Dataset d;
    d.machines.push_back({"somewhere", 1});
    std::vector<float> near, right;
    for (std::int32_t t = 0; t < 3; ++t) {
      const std::string key = "key" + std::to_string(t);
      d.tasks.push_back({key, "task", "ansor", "[\"op\", 1]", 1, 1});
      for (int i = 1; i <= 20; ++i) {
        d.examples.push_back(
            {t, 0, std::to_string(i), static_cast<float>(i) * 1e-3f, "ok", "", false});
        right.push_back(1 / static_cast<float>(i));
        near.push_back(static_cast<float>(i % 2 == 1 ? -i - 1 : -i + 1));
      }
    }
    d.networks = {{"resnet50", {{"key0", 1}, {"key1", 3}}},
                  {"bert_tiny", {{"key2", 2}}},
                  {"other", {{"key2", 1}, {"key9", 1}}}};
    ASSERT_TRUE(dataset::save(d, data_).ok());
    near_ = write_scores("near.npz", near);
    right_ = write_scores("right.npz", right);
  }

  std::string write_scores(const std::string& name, const std::vector<float>& scores) const {
    HostTensor tensor(DType::kF32, {static_cast<std::int64_t>(scores.size())});
    std::copy(scores.begin(), scores.end(), tensor.as<float>());
    const std::string path = folder_ + "/" + name;
    EXPECT_TRUE(write_npz(path, {{"score", tensor}}).ok());
    return path;
  }

  Finished eval(std::vector<std::string> args) const {
    args.insert(args.begin(), {"eval", "--data", data_});
    return run(args);
  }

  void expect_usage_error(const std::vector<std::string>& args, const std::string& words) const {
    const Finished done = run(args);
    EXPECT_EQ(done.code, 2);
    EXPECT_EQ(done.out, "");
    EXPECT_NE(done.err.find(words), std::string::npos) << done.err;
  }

  std::string folder_, data_, near_, right_;
};

TEST_F(Eval, Tables) {
  const Finished done = eval({"--scores", "near/rank=" + near_, "right/regression=" + right_});
  EXPECT_EQ(done.code, 0) << done.err;
  tessera::testing::expect_golden("cli/eval.txt", done.out);
}

TEST_F(Eval, Markdown) {
  const Finished done = eval({"--markdown", "--scores", near_});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out.rfind("| model | loss | RMSE | R2 | MAPE |", 0), 0u) << done.out;
  EXPECT_NE(done.out.find("| near | - |"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("| 0.500/1.000 | 0.500/1.000 |"), std::string::npos) << done.out;
}

TEST_F(Eval, JsonForScripts) {
  const Finished done = eval({"--json", "--holdout", "tenset5", "--scores", near_, right_});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json json = Json::parse(done.out);
  ASSERT_EQ(json["models"].size(), 2u);
  const Json& near = json["models"][0];
  EXPECT_EQ(near["name"], "near");
  EXPECT_EQ(near["loss"], "-");
  // The second fastest is chosen first: twice the time of the fastest.
  EXPECT_NEAR(near["top1"].get<double>(), 0.5, 1e-6);
  EXPECT_NEAR(near["top5"].get<double>(), 1, 1e-6);
  EXPECT_NEAR(near["pairwise"].get<double>(), 180.0 / 190, 1e-6);
  EXPECT_NEAR(near["slowdown"]["1"].get<double>(), 1, 1e-6);
  ASSERT_EQ(near["networks"].size(), 2u);
  for (const char* network : {"resnet50", "bert_tiny"}) {
    EXPECT_NEAR(near["networks"][network]["top1"].get<double>(), 0.5, 1e-6);
    EXPECT_NEAR(near["networks"][network]["top5"].get<double>(), 1, 1e-6);
    EXPECT_NEAR(near["networks"][network]["pairwise"].get<double>(), 180.0 / 190, 1e-6);
  }
  EXPECT_EQ(json["models"][1]["top1"], 1.0);
  EXPECT_EQ(json["baselines"][0]["name"], "random");
  EXPECT_EQ(json["records"], 60);
}

TEST_F(Eval, OtherSplits) {
  const Json held =
      Json::parse(eval({"--json", "--holdout", "other", "--scores", right_}).out, nullptr, false);
  ASSERT_TRUE(held.is_object());
  EXPECT_EQ(held["records"], 20);
  EXPECT_EQ(held["models"][0]["networks"]["other"]["missing"], 1);
  const Json within = Json::parse(
      eval({"--json", "--split", "within-task", "--scores", right_}).out, nullptr, false);
  ASSERT_TRUE(within.is_object());
  // A tenth of each task, on average.
  EXPECT_GE(within["records"], 1);
  EXPECT_LE(within["records"], 20);
  EXPECT_LE(within["tasks"], 3);
  EXPECT_FALSE(within["models"][0]["networks"].empty());
}

TEST_F(Eval, Plot) {
  const std::string path = folder_ + "/plot.svg";
  const Finished done = eval({"--plot", path, "--scores", "a<b/rank=" + near_});
  ASSERT_EQ(done.code, 0) << done.err;
  const std::string svg = read_file(path);
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_NE(svg.find("a&lt;b"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">top-1<"), std::string::npos);
  EXPECT_NE(svg.find("score, mean of the networks"), std::string::npos);
  // Two of the legend, two of each model: bars or, where the axis starts above zero, dots.
  const bool dots = svg.find("starts at 0.") != std::string::npos;
  const std::string shape = dots ? "class=\"marker" : "class=\"bar";
  std::size_t shapes = 0;
  for (std::size_t at = svg.find(shape); at != std::string::npos; at = svg.find(shape, at + 1)) {
    ++shapes;
  }
  EXPECT_EQ(shapes, 2u + 2 * 2);
}

TEST_F(Eval, WhatGoesWrong) {
  expect_usage_error({"eval", "--data", data_}, "nothing to evaluate");
  expect_usage_error({"eval", "--data", data_, "--scores", folder_ + "/absent.npz"}, "absent.npz");
  expect_usage_error({"eval", "--data", data_, "--cost-model", near_}, "near.npz");
  expect_usage_error({"eval", "--data", folder_ + "/none", "--scores", near_}, "none");
  expect_usage_error({"eval", "--data", data_, "--split", "by-luck", "--scores", near_},
                     "no split 'by");
  expect_usage_error({"eval", "--data", data_, "--holdout", "vgg16", "--scores", near_},
                     "no network 'vgg16'; the dataset has: resnet50, bert_tiny, other");
  expect_usage_error({"eval", "--data", data_, "--json", "--markdown", "--scores", near_},
                     "--json");
  // No model ships for the machine of this dataset, as long as any do.
  expect_usage_error({"eval", "--shipped", "--data", data_}, "no ");
}

}  // namespace
}  // namespace tessera::cli
