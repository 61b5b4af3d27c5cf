// Policies and cost models of users in `tessera tune`.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/documents.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

// A tuning of 24 trials that keeps nothing but its plan.
Finished tune(const std::string& flags, const std::string& plan) {
  std::filesystem::remove(plan);
  return run_shell(fmt::format(
      "tessera tune --op matmul:M=48,N=40,K=32 --threads 1 --peers none --trials 24 --round 8 "
      "--db '' --plan {} --json {}",
      plan, flags));
}

std::string plan_of_test() {
  return std::filesystem::path(write_file("folder", "")).parent_path().string() + "/own.plan";
}

bool has_python() { return std::system("python3 -c pass 2>/dev/null") == 0; }

void expect_tuned(const Finished& done, const std::string& plan, int code) {
  EXPECT_EQ(done.code, code) << done.err;
  const auto json = nlohmann::json::parse(done.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << done.out << done.err;
  EXPECT_EQ(json["trials"], 24);
  EXPECT_TRUE(std::filesystem::exists(plan));
}

TEST(Own, TheExampleOfAPolicyTunes) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  const std::string plan = plan_of_test();
  const Finished done = tune("--policy exec:examples/own/policy.py", plan);
  expect_tuned(done, plan, 0);
  EXPECT_EQ(done.err.find("policy.py:"), std::string::npos) << done.err;
}

TEST(Own, TheExampleOfACostModelTunes) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  const std::string plan = plan_of_test();
  const Finished done = tune("--cost-model exec:examples/own/cost_model.py", plan);
  expect_tuned(done, plan, 0);
  EXPECT_EQ(done.err.find("cost_model.py:"), std::string::npos) << done.err;
}

TEST(Own, TheExampleOfALibraryTunes) {
  if (run_shell("cc --version").code != 0) GTEST_SKIP() << "no C compiler (cc)";
  const std::string plan = plan_of_test(), library = plan + ".so";
  const Finished built = run_shell(
      "cc -shared -fPIC -O2 -I tessera/learn/model/include "
      "examples/own/cost_model.c -o " +
      library);
  ASSERT_EQ(built.code, 0) << built.err;
  expect_tuned(tune("--cost-model lib:" + library, plan), plan, 0);
}

TEST(Own, APolicyThatEndsLosesNothing) {
  const std::string plan = plan_of_test();
  const Finished done =
      tune("--policy 'exec:sh -c \"read x; echo {}; read x; echo {}; read x; exit 4\"'", plan);
  expect_tuned(done, plan, 1);
  EXPECT_NE(done.err.find("ended with code 4; the search continues by evolution"),
            std::string::npos)
      << done.err;
}

TEST(Own, ACostModelThatEndsIsLeftAside) {
  const std::string plan = plan_of_test();
  const Finished done = tune("--cost-model 'exec:sh -c \"read x; echo {}; read x; exit 5\"'", plan);
  expect_tuned(done, plan, 0);
  EXPECT_NE(done.err.find("ended with code 5; the search continues without"), std::string::npos)
      << done.err;
}

TEST(Own, WhatCannotBeStartedIsSaidBeforeAnythingIsMeasured) {
  const std::string plan = plan_of_test();
  for (const char* flags : {"--policy exec:/nowhere/x", "--policy exec:true", "--policy exec",
                            "--policy 'exec:yes no'", "--cost-model exec:/nowhere/x",
                            "--cost-model exec:true", "--cost-model lib:/nowhere/x.so"}) {
    const Finished done = tune(flags, plan);
    EXPECT_EQ(done.code, 2) << flags << done.err;
    EXPECT_FALSE(std::filesystem::exists(plan)) << flags;
    EXPECT_NE(done.err, "") << flags;
  }
}

}  // namespace
}  // namespace tessera::cli
