// `tessera bench`: what scripts read. No test here depends on how long anything takes.
#include <algorithm>
#include <limits>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

using nlohmann::json;

json bench_json(std::vector<std::string> args) {
  args.emplace_back("--json");
  const Finished result = run(quick_bench(args));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  json parsed = json::parse(result.out, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << result.out;
  return parsed;
}

bool measured(const json& peer) { return peer.contains("median_us"); }

TEST(Bench, JsonHasTheContractedKeys) {
  const json all = bench_json({"--op", "matmul:M=8,N=8,K=8"});
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all.at("results").size(), 1u);
  const json& r = all.at("results").at(0);
  EXPECT_EQ(r.at("name"), "matmul:M=8,N=8,K=8,TA=0,TB=0,dtype=f32");
  EXPECT_EQ(r.at("threads"), 1);
  for (const char* key : {"median_us", "gflops", "fraction_of_peak", "build_ms"}) {
    ASSERT_TRUE(r.at(key).is_number()) << key;
    EXPECT_GT(r.at(key).get<double>(), 0) << key;
  }
  EXPECT_EQ(r.at("verified"), true);
  EXPECT_TRUE(r.at("trusted").is_boolean());
  EXPECT_EQ(r.at("peers"), json::array());
}

TEST(Bench, PrintsAHeaderPercentilesAndThroughput) {
  const Finished text = run(quick_bench({"--op", "matmul:M=8,N=8,K=8"}));
  EXPECT_EQ(text.out.find("threads     p50 us     p90 us     p99 us     per s"), 0u) << text.out;
  const json r = bench_json({"zoo:mlp", "--batch", "3"}).at("results").at(0);
  EXPECT_EQ(r.at("name"), "zoo:mlp@batch=3");
  EXPECT_LE(r.at("median_us"), r.at("p90_us"));
  EXPECT_LE(r.at("p90_us"), r.at("p99_us"));
  EXPECT_NEAR(r.at("per_s").get<double>() * r.at("median_us").get<double>(), 3e6, 1);
}

TEST(Bench, TimesEveryCallForAWhile) {
  const Finished done =
      run({"bench", "zoo:mlp", "--duration", "100ms", "--warmup", "10ms", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_GT(json::parse(done.out).at("results").at(0).at("p99_us"), 0);
  EXPECT_EQ(run({"bench", "zoo:mlp", "--duration", "1s", "--samples", "3"}).code, 2);
}

TEST(Bench, ABatchNeedsADimensionToSet) {
  const Finished fixed =
      run(quick_bench({"docs/reference/examples/unsupported.onnx", "--batch", "77"}));
  EXPECT_NE(fixed.code, 0);
  const Finished symbolic =
      run(quick_bench({"docs/reference/examples/symbolic.onnx", "--batch", "2", "--json"}));
  EXPECT_EQ(symbolic.err.find("--batch"), std::string::npos) << symbolic.err;
}

TEST(Bench, TimesOtherBuildsInTurnsWithTheModel) {
  const json r = bench_json({"zoo:lenet", "--beside", "defaults", "--profile"}).at("results").at(0);
  ASSERT_EQ(r.at("peers").size(), 1u);
  EXPECT_EQ(r.at("peers").at(0).at("name"), "defaults");
  EXPECT_EQ(r.at("peers").at(0).at("verified"), true);
  EXPECT_GT(r.at("peers").at(0).at("ratio"), 0);
  ASSERT_EQ(r.at("beside_profiles").size(), 1u);
  const json& other = r.at("beside_profiles").at(0);
  ASSERT_EQ(other.size(), r.at("profile").size());
  for (std::size_t i = 0; i < other.size(); ++i) {
    EXPECT_EQ(other.at(i).at("task"), r.at("profile").at(i).at("task"));
    EXPECT_EQ(other.at(i).at("task").get<std::string>().size(), 16u);
    EXPECT_GT(other.at(i).at("us"), 0);
  }
}

TEST(Bench, TimesTheLoopsAsWritten) {
  const json r = bench_json({"zoo:lenet", "--beside", "loops,defaults"}).at("results").at(0);
  ASSERT_EQ(r.at("peers").size(), 2u);
  for (const json& peer : r.at("peers")) EXPECT_EQ(peer.at("verified"), true) << peer;
  EXPECT_EQ(r.at("peers").at(0).at("name"), "loops");
  EXPECT_EQ(r.at("peers").at(1).at("name"), "defaults");
}

TEST(Bench, TheProfileBeginsWithTheSlowestKernel) {
  const Finished done = run(quick_bench({"zoo:lenet", "--profile"}));
  ASSERT_EQ(done.code, 0) << done.err;
  std::stringstream lines(done.out.substr(done.out.find("kernels, the slowest first:")));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  double last = std::numeric_limits<double>::infinity();
  int kernels = 0;
  while (std::getline(lines, line) && line.find("all kernels") == std::string::npos) {
    const double us = std::stod(line);
    EXPECT_LE(us, last) << done.out;
    last = us;
    ++kernels;
  }
  EXPECT_GE(kernels, 5) << done.out;
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("of ")) << line;
  EXPECT_NE(line.find(" ms: "), std::string::npos) << line;
}

TEST(Bench, EveryPeerIsMeasuredOrAbsentWithAReason) {
  const json all = bench_json({"--op", "matmul:M=8,N=8,K=8", "--peers", "openblas,torch"});
  const json& peers = all.at("results").at(0).at("peers");
  ASSERT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers.at(0).at("name"), "openblas");
  EXPECT_EQ(peers.at(1).at("name"), "torch");
  for (const json& peer : peers) {
    if (measured(peer)) {
      EXPECT_TRUE(peer.at("ratio").is_number()) << peer;
      EXPECT_FALSE(peer.contains("absent")) << peer;
    } else {
      EXPECT_EQ(peer.size(), 2u) << peer;
      EXPECT_FALSE(peer.at("absent").get<std::string>().empty()) << peer;
    }
  }
}

TEST(Bench, AllPeersAreListedOnce) {
  const json all = bench_json({"--op", "softmax:R=2,C=8", "--peers", "all"});
  std::set<std::string> names;
  for (const json& peer : all.at("results").at(0).at("peers")) names.insert(peer.at("name"));
  EXPECT_EQ(names, (std::set<std::string>{"acl", "blis", "onednn", "openblas", "ort", "torch",
                                          "xnnpack"}));
}

// The fields of the CPU on the devices of this machine; where there is none, one line says why.
TEST(Bench, ModelsOnDevicesHaveTheSameFields) {
  for (const std::string target : {"cuda", "opencl"}) {
    const std::vector<std::string> args =
        quick_bench({"zoo:mlp", "--target", target, "--json", "--profile"});
    const Finished result = run(args);
    if (result.code == 6) {
      EXPECT_EQ(result.out, "");
      EXPECT_TRUE(result.err.starts_with("tessera: target " + target + ": no ")) << result.err;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      continue;
    }
    EXPECT_EQ(result.code, 0) << result.err;
    const json all = json::parse(result.out, nullptr, false);
    ASSERT_FALSE(all.is_discarded()) << result.out;
    const json& r = all.at("results").at(0);
    EXPECT_EQ(r.at("verified"), true);
    EXPECT_EQ(r.at("verified_by"), "this machine's cores");
    for (const char* key : {"median_us", "p10_us", "gflops", "build_ms", "kernels_us"})
      EXPECT_GT(r.at(key).get<double>(), 0) << key;
    EXPECT_EQ(r.at("profile").size(), r.at("steps").get<std::size_t>());
  }
}

// As many kernels as `tasks` counts: attention is one of them.
TEST(Bench, ModelsOnDevicesHaveTheKernelsOfTheirTasks) {
  const std::string model = "zoo:bert_mini@layers=1,seq=8,hidden=32,ffn=64,heads=2,vocab=50";
  const Finished tasks = run({"tasks", model, "--target", "opencl"});
  if (tasks.code == 6) GTEST_SKIP() << tasks.err;
  ASSERT_EQ(tasks.code, 0) << tasks.err;
  EXPECT_NE(tasks.out.find("softmax+contract"), std::string::npos) << tasks.out;
  const Finished result = run(quick_bench({model, "--target", "opencl", "--json"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const json all = json::parse(result.out, nullptr, false);
  ASSERT_FALSE(all.is_discarded()) << result.out;
  const json& r = all.at("results").at(0);
  EXPECT_EQ(r.at("verified"), true);
  const std::string count = " " + std::to_string(r.at("steps").get<int>()) + " kernels";
  EXPECT_NE(tasks.out.find(count), std::string::npos) << count << "\n" << tasks.out;
}

TEST(Bench, SuiteSkipsCommentsAndKeepsTheOrder) {
  const std::string suite = write_file("suite.txt",
                                       "# two operations\n\n  softmax:R=2,C=8   # the first\r\n"
                                       "matmul:M=8,N=8,K=8\n# the end");
  const json all = bench_json({"--suite", suite});
  ASSERT_EQ(all.at("results").size(), 2u);
  EXPECT_EQ(all.at("results").at(0).at("name").get<std::string>().rfind("softmax:", 0), 0u);
  EXPECT_EQ(all.at("results").at(1).at("name").get<std::string>().rfind("matmul:", 0), 0u);
}

TEST(Bench, OpsComeBeforeTheSuite) {
  const std::string suite = write_file("suite.txt", "softmax:R=2,C=8\n");
  const json all = bench_json({"--suite", suite, "--op", "matmul:M=8,N=8,K=8"});
  ASSERT_EQ(all.at("results").size(), 2u);
  EXPECT_EQ(all.at("results").at(0).at("name").get<std::string>().rfind("matmul:", 0), 0u);
}

TEST(Bench, TableHasOneRowPerOperation) {
  const Finished result =
      run(quick_bench({"--op", "matmul:M=8,N=8,K=8", "--op", "softmax:R=2,C=8"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 3) << result.out;
  EXPECT_NE(result.out.find("GFLOP/s"), std::string::npos);
  EXPECT_NE(result.out.find("verified"), std::string::npos);
  EXPECT_EQ(result.out.find("WRONG"), std::string::npos);
}

TEST(Bench, UsesTheGivenSchedule) {
  const std::string schedule = write_file("s.txt", "split C j 8\nannotate C j.1 vectorize\n");
  const json all = bench_json({"--op", "matmul:M=8,N=16,K=8", "--schedule", schedule});
  EXPECT_EQ(all.at("results").at(0).at("verified"), true);
}

TEST(Bench, TwoThreads) {
  const std::string schedule = write_file("s.txt", "annotate C i parallel\n");
  const json all =
      bench_json({"--op", "matmul:M=8,N=8,K=8", "--schedule", schedule, "--threads", "2"});
  EXPECT_EQ(all.at("results").at(0).at("threads"), 2);
  EXPECT_EQ(all.at("results").at(0).at("verified"), true);
}

TEST(Bench, PoolCostsOfALoop) {
  const Finished result = run({"bench", "--pool", "--threads", "2", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json j = json::parse(result.out);
  EXPECT_EQ(j.at("threads"), 2);
  for (const char* key : {"awake_us", "parked_us", "awake_all_us", "parked_all_us"}) {
    EXPECT_GT(j.at(key).get<double>(), 0) << key;
  }
  const Finished table = run({"bench", "--pool", "--threads", "1"});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("empty bodies"), std::string::npos) << table.out;
}

TEST(Bench, PassTimesGoToStderr) {
  const Finished result = run(quick_bench({"--op", "matmul:M=8,N=8,K=8", "--time-passes"}));
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find("vectorize_loops"), std::string::npos);
  EXPECT_EQ(result.out.find("vectorize_loops"), std::string::npos);
}

TEST(Bench, ListOpsNamesEveryParameter) {
  const Finished result = run({"bench", "--list-ops"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* part :
       {"\nmatmul\n", "rows of the output (required)", "stride (default 1)", "direct, winograd2"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace tessera::cli
