// tessera lm: what scripts read.
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::json;

TEST(Lm, ValidationIsOfZeroTrials) {
  const Finished done = run({"lm", "eval", "--validation"});
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("--zero-trials"), std::string::npos) << done.err;
}

TEST(Lm, ZeroTrialsTakeNoTask) {
  const Finished done = run({"lm", "eval", "--zero-trials", "--task", "0123456789abcdef"});
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("--task"), std::string::npos) << done.err;
}

TEST(Lm, EvalPrintsSharesByTrials) {
  const std::string data = TESSERA_ROOT "/data/h200";
  const Finished done =
      run({"lm", "eval", "--data", data, "--least-records", "8", "--tasks", "1", "--seeds", "2",
           "--trials", "1,4,16", "--policy", "random", "--policy", "any=lm+model=none", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json json = Json::parse(done.out);
  EXPECT_EQ(json["tasks"], 1);
  ASSERT_EQ(json["policies"].size(), 2u);
  EXPECT_EQ(json["policies"][0]["name"], "random");
  EXPECT_EQ(json["policies"][1]["name"], "any");
  for (const Json& p : json["policies"]) {
    EXPECT_EQ(p["trials"], Json({1, 4, 16}));
    ASSERT_EQ(p["share"].size(), 3u);
    EXPECT_LE(p["share"][0], p["share"][2]);
    EXPECT_LE(p["share"][2], 1.0);
  }
}

TEST(Lm, EvalRefusesWhatThereIsNot) {
  EXPECT_EQ(run({"lm", "eval", "--trials", "4,1", "--policy", "random"}).code, 2);
  EXPECT_EQ(run({"lm", "eval", "--target", "cuda"}).code, 2);     // needs --measure
  EXPECT_EQ(run({"lm", "eval", "--code-threads", "2"}).code, 2);  // likewise
  for (const char* target : {"cuda", "opencl"}) {
    const Finished threads =
        run({"lm", "eval", "--measure", "--target", target, "--code-threads", "2"});
    EXPECT_EQ(threads.code, 2);
    EXPECT_NE(threads.err.find("--code-threads"), std::string::npos) << threads.err;
  }
  const Finished absent = run({"lm", "eval", "--weights", "/no/such.file"});
  EXPECT_NE(absent.code, 0);
  EXPECT_NE(absent.err.find("/no/such.file"), std::string::npos) << absent.err;
}

TEST(Lm, GenerateCountsWhatUnconstrainedDrawsThrowAway) {
  const std::vector<std::string> words = {
      "lm",        "generate", "--op",     "matmul:M=64,N=64,K=64",
      "--count",   "50",       "--target", "neoverse-v1",
      "--weights", "none",     "--json"};
  const Finished legal = run(words);
  ASSERT_EQ(legal.code, 0) << legal.err;
  const Json kept = Json::parse(legal.out);
  EXPECT_EQ(kept["candidates"].size(), 50u);
  EXPECT_EQ(kept["thrown_away"], 0);
  EXPECT_GT(kept["per_second"], 0);
  std::vector<std::string> free = words;
  free.emplace_back("--unconstrained");
  const Finished drawn = run(free);
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_GT(Json::parse(drawn.out)["thrown_away"], 0);
}

TEST(Lm, GenerateSaysWhereItsTimeWent) {
  const Finished done = run({"lm", "generate", "--op", "matmul:M=64,N=64,K=64", "--count", "5",
                             "--target", "neoverse-v1", "--profile", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json profile = Json::parse(done.out)["profile"];
  EXPECT_GT(profile["steps"], 0);
  EXPECT_GT(profile["network_ms"], 0);
  double sum = 0;
  for (const Json& k : profile["kernels"]) sum += k["us"].get<double>();
  EXPECT_NEAR(profile["step_us"], sum, 1e-6 * sum);
}

}  // namespace
}  // namespace tessera::cli
