// --plan and --strict of the commands that build models.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kModel = "zoo:mlp";

class PlanFlag : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(write_file("marker", "")).parent_path().string();
    for (const char* name : {"one", "two", "plain"}) fs::remove_all(folder_ + "/" + name);
    const Finished listed = run({"tasks", kModel, "--json"});
    ASSERT_EQ(listed.code, 0) << listed.err;
    tasks_ = Json::parse(listed.out)["tasks"];
    ASSERT_GE(tasks_.size(), 2u);
    const Finished shown = run({"targets", "--json"});
    ASSERT_EQ(shown.code, 0) << shown.err;
    plan_ = {{"format", "tessera plan"},
             {"version", 1},
             {"model", kModel},
             {"target", Json::parse(shown.out)[0]["text"]},
             {"threads", 1},
             {"algorithms", Json::object()},
             {"tasks", Json::object()}};
  }

  std::string write() { return write_file("a.plan", plan_.dump()); }

  // Loops as written: legal for every task, and not what the default is.
  void add(const Json& task, const std::vector<std::string>& steps) {
    plan_["tasks"][task["key"].get<std::string>()] = {
        {"name", task["name"]}, {"candidate", ""}, {"seconds", 0.0}, {"schedule", steps}};
  }

  Finished compile(const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> args = {"compile", kModel, "-o", folder_ + "/" + name};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }
  std::string library(const std::string& name) {
    return read_file(folder_ + "/" + name + "/libmlp.so");
  }

  std::string folder_;
  Json tasks_, plan_;
};

TEST_F(PlanFlag, PlansBesideAModelThatLackItsTasksAreNamed) {
  add(tasks_[0], {});
  plan_["threads"] = 2;
  const std::string plan = write();
  const Finished done = run({"bench", kModel, "--threads", "1", "--beside", plan, "--peers", "none",
                             "--samples", "1", "--time-limit", "1ms"});
  EXPECT_EQ(done.code, 0) << done.err;
  for (const std::string& said :
       {plan + ": has schedules for 1 of", plan + ": was tuned with 2 threads"})
    EXPECT_NE(done.err.find(said), std::string::npos) << done.err;
}

TEST_F(PlanFlag, PlansOfAnotherProcessorAreNamed) {
  for (const Json& task : tasks_) add(task, {});
  std::string target = plan_["target"];
  const std::size_t cpu = target.find(" cpu=") + 5;
  target.replace(cpu, target.find(' ', cpu) - cpu, "elsewhere");
  plan_["target"] = target;
  const Finished done = compile("one", {"--plan", write(), "--emit", "obj"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("warning: " + folder_ + "/a.plan: was tuned on elsewhere, not on "),
            std::string::npos)
      << done.err;
}

TEST_F(PlanFlag, RebuildsTheSameBytesAndUsesItsSchedules) {
  for (const Json& task : tasks_) add(task, {});
  const std::string plan = write();
  const Finished one = compile("one", {"--plan", plan, "--strict"});
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(compile("two", {"--plan", plan, "--strict"}).code, 0);
  ASSERT_EQ(compile("plain", {}).code, 0);
  EXPECT_EQ(library("one"), library("two"));
  EXPECT_EQ(read_file(folder_ + "/one/mlp.json"), read_file(folder_ + "/two/mlp.json"));
  EXPECT_NE(library("one"), library("plain"));
}

TEST_F(PlanFlag, AbsentTasksGetTheirDefaultAndAreNamed) {
  add(tasks_[0], {});
  const std::string plan = write();
  const Finished done = compile("one", {"--plan", plan});
  EXPECT_EQ(done.code, 0) << done.err;
  const std::string key = tasks_[1]["key"].get<std::string>();
  EXPECT_NE(done.err.find("has schedules for 1 of "), std::string::npos) << done.err;
  EXPECT_NE(done.err.find(key), std::string::npos) << done.err;
  EXPECT_EQ(done.err.find(tasks_[0]["key"].get<std::string>()), std::string::npos) << done.err;
}

TEST_F(PlanFlag, WhatModelsPickIsAPlan) {
  const std::string plan = folder_ + "/picked.plan";
  const Finished judged =
      compile("one", {"--picked", plan, "--cost-model", "shipped", "--threads", "1"});
  ASSERT_EQ(judged.code, 0) << judged.err;
  const Finished done = compile("two", {"--plan", plan, "--threads", "1"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(library("one"), library("two"));
}

TEST_F(PlanFlag, StrictMissesExitWithSevenEverywhere) {
  const std::string plan = write();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"compile", kModel, "-o", folder_ + "/one"},
        {"run", kModel, "--random"},
        quick_bench({kModel})}) {
    std::vector<std::string> args = command;
    args.insert(args.end(), {"--plan", plan, "--strict"});
    const Finished done = run(args);
    EXPECT_EQ(done.code, 7) << done.err;
    EXPECT_EQ(done.out, "");
    for (const Json& task : tasks_) {
      EXPECT_NE(done.err.find(task["key"].get<std::string>()), std::string::npos) << done.err;
    }
  }
  EXPECT_FALSE(fs::exists(folder_ + "/one"));
}

// "key=value" of the target's line with another value.
std::string with(std::string target, const std::string& key, const std::string& value) {
  const std::size_t at = target.find(" " + key + "=") + key.size() + 2;
  return target.replace(at, std::min(target.find(' ', at), target.size()) - at, value);
}

TEST_F(PlanFlag, ServesOtherCoresCachesAndNames) {
  for (const Json& task : tasks_) add(task, {});
  const std::string host = plan_["target"];
  plan_["target"] = with(with("mine" + host.substr(4), "cores", "48"), "l2", "4096");
  const Finished done = compile("one", {"--plan", write(), "--strict"});
  EXPECT_EQ(done.code, 0) << done.err;
}

TEST_F(PlanFlag, SaysInALineWhatDoesNotMatch) {
  const std::string host = plan_["target"];
  plan_["target"] = with(host, "vector", "7x8");
  const Finished vectors = compile("one", {"--plan", write()});
  EXPECT_EQ(vectors.code, 2);
  EXPECT_NE(vectors.err.find("made for 7 registers of 8 bytes"), std::string::npos) << vectors.err;
  EXPECT_EQ(std::ranges::count(vectors.err, '\n'), 1) << vectors.err;
  plan_["target"] = "another";
  const Finished unknown = compile("one", {"--plan", write()});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("the plan cannot be used here"), std::string::npos) << unknown.err;
}

TEST_F(PlanFlag, SaysHowMuchOfTheModelItFits) {
  for (const Json& task : tasks_) add(task, {});
  const std::string plan = write();
  const std::string none = fmt::format("has schedules for 0 of {} tasks", tasks_.size());
  const Finished other = run(quick_bench({"zoo:mlp@batch=3", "--plan", plan}));
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find(none), std::string::npos) << other.err;
  EXPECT_NE(other.err.find("made for zoo:mlp"), std::string::npos) << other.err;
  const Finished fits = run(quick_bench({kModel, "--plan", plan}));
  EXPECT_EQ(fits.err.find("warning"), std::string::npos) << fits.err;
  for (const std::vector<std::string>& command :
       {quick_bench({kModel, "--threads", "2"}),
        quick_bench({"--op", "matmul:M=4,N=4,K=4", "--threads", "2"}),
        std::vector<std::string>{"run", kModel, "--random", "--threads", "2"}}) {
    std::vector<std::string> args = command;
    args.insert(args.end(), {"--plan", plan});
    const Finished threads = run(args);
    EXPECT_NE(threads.err.find("was tuned with 1 thread, not with 2"), std::string::npos)
        << threads.err;
  }
  const Finished op = run(quick_bench({"--op", "matmul:M=4,N=4,K=4", "--plan", plan}));
  EXPECT_EQ(op.code, 0) << op.err;
  EXPECT_NE(op.err.find("is not in the plan"), std::string::npos) << op.err;
}

TEST_F(PlanFlag, RunsWithAPlan) {
  for (const Json& task : tasks_) add(task, {});
  const Finished tuned = run({"run", kModel, "--random", "--plan", write()});
  const Finished plain = run({"run", kModel, "--random"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(tuned.out.substr(0, tuned.out.find("min")), plain.out.substr(0, plain.out.find("min")));
}

TEST_F(PlanFlag, AScheduleThatDoesNotApplyNamesItsTask) {
  add(tasks_[0], {"split nowhere i 4"});
  const Finished done = compile("one", {"--plan", write()});
  EXPECT_EQ(done.code, 2) << done.err;
  EXPECT_NE(done.err.find(tasks_[0]["key"].get<std::string>()), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("does not apply"), std::string::npos) << done.err;
}

TEST_F(PlanFlag, Mistakes) {
  const Finished alone = compile("one", {"--strict"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.err.find("--plan"), std::string::npos) << alone.err;
  const Finished absent = compile("one", {"--plan", folder_ + "/absent.plan"});
  EXPECT_EQ(absent.code, 2);
  EXPECT_NE(absent.err.find("absent.plan"), std::string::npos) << absent.err;
  const Finished op =
      run(quick_bench({"--op", "matmul:M=4,N=4,K=4", "--plan", write(), "--strict"}));
  EXPECT_EQ(op.code, 7);
  EXPECT_NE(op.err.find("not in the plan"), std::string::npos) << op.err;
  const Finished broken = compile("one", {"--plan", write_file("broken.plan", "{}")});
  EXPECT_EQ(broken.code, 2);
  EXPECT_NE(broken.err.find("not a plan"), std::string::npos) << broken.err;
}

}  // namespace
}  // namespace tessera::cli
