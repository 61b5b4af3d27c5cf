// Every stage of `tessera show`, for both architectures.
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

constexpr const char* kOp = "matmul:M=16,N=32,K=8";
constexpr const char* kSchedule =
    "split C i 4\nsplit C j 32\nreorder C i.0 j.0 k i.1 j.1\n"
    "annotate C i.1 unroll\nannotate C j.1 vectorize\n";

std::string show(std::vector<std::string> args) {
  args.insert(args.begin(),
              {"show", "--op", kOp, "--schedule", write_file("schedule.txt", kSchedule)});
  const Finished result = run(args);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Show, Te) {
  EXPECT_TRUE(contains(show({"--stage", "te"}), "C[i, j] = sum(k in 8) A[i, k] * B[k, j]"));
}

TEST(Show, ScheduleHasTheStepsAndTheirLoops) {
  const std::string text = show({"--stage", "schedule"});
  EXPECT_EQ(text.rfind(kSchedule, 0), 0u) << text;
  EXPECT_TRUE(contains(text, "for i.0 in 4"));
  EXPECT_TRUE(contains(text, "(reduce)"));
}

TEST(Show, IrIsTheDefaultStage) {
  const std::string text = show({"--target", "neoverse-v1"});
  EXPECT_EQ(text, show({"--target", "neoverse-v1", "--stage", "ir"}));
  EXPECT_EQ(text.rfind("func matmul(", 0), 0u) << text;
  EXPECT_TRUE(contains(text, "ramp("));
  EXPECT_FALSE(contains(text, "vectorize")) << "a loop kind that only earlier passes know";
}

TEST(Show, Llvm) {
  const std::string text = show({"--stage", "llvm", "--target", "x86-64-v3"});
  EXPECT_TRUE(contains(text, "define i32 @matmul("));
  EXPECT_TRUE(contains(text, "target triple = \"x86_64-unknown-linux-gnu\""));
  EXPECT_TRUE(contains(text, "<8 x float>"));
}

TEST(Show, AsmForAvx512) {
  const std::string text = show({"--stage", "asm", "--target", "skylake-avx512"});
  EXPECT_TRUE(contains(text, "vfmadd"));
  EXPECT_TRUE(contains(text, "zmm"));
}

TEST(Show, AsmForAvx2HasNoAvx512Register) {
  const std::string text = show({"--stage", "asm", "--target", "haswell"});
  EXPECT_TRUE(contains(text, "ymm"));
  EXPECT_FALSE(contains(text, "zmm"));
}

TEST(Show, AsmForAArch64) {
  const std::string text = show({"--stage", "asm", "--target", "neoverse-v1"});
  EXPECT_TRUE(contains(text, "fmla\tv"));
  EXPECT_FALSE(contains(text, "mm0"));
}

TEST(Show, AliasesGiveTheSameCode) {
  EXPECT_EQ(show({"--stage", "asm", "--target", "graviton3"}),
            show({"--stage", "asm", "--target", "neoverse-v1"}));
}

TEST(Show, HostIsTheDefaultTarget) {
  EXPECT_EQ(show({"--stage", "asm"}), show({"--stage", "asm", "--target", "host"}));
}

TEST(Show, PrintAfterPrintsThatPassOnly) {
  const std::string text = show({"--print-after", "build_loop_nest"});
  EXPECT_TRUE(contains(text, "build_loop_nest"));
  EXPECT_TRUE(contains(text, "vectorize j.1"));
  EXPECT_FALSE(contains(text, "flatten_buffers"));
}

TEST(Show, PrintAfterAllFollowsTheOrderOfThePasses) {
  const std::string text = show({"--print-after", "all"});
  std::size_t last = 0;
  for (const char* pass : {"build_loop_nest", "partition_loops", "flatten_buffers",
                           "vectorize_loops", "unroll_loops"}) {
    const std::size_t at = text.find(pass);
    ASSERT_NE(at, std::string::npos) << pass;
    EXPECT_GT(at + 1, last) << pass;
    last = at;
  }
}

TEST(Show, StopAfterLeavesLaterPassesOut) {
  EXPECT_TRUE(contains(show({"--stop-after", "simplify_loops"}), "vectorize j.1"));
}

TEST(Show, SkippedPassDoesNotRun) {
  EXPECT_TRUE(contains(show({"--skip", "unroll_loops,simplify"}), "unroll i.1"));
}

TEST(Show, PassTimesGoToStderr) {
  const Finished result = run({"show", "--op", kOp, "--time-passes"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.err, "vectorize_loops")) << result.err;
  EXPECT_EQ(result.out.rfind("func ", 0), 0u);
}

// What the kernels of a model get, whatever files lie about.
TEST(Show, OperationsGetTheDefaultSchedule) {
  for (const char* target : {"haswell", "skylake-avx512", "neoverse-v1", "h200"}) {
    const std::vector<std::string> command = {"show",     "--op",     kOp,   "--stage",
                                              "schedule", "--target", target};
    const Finished result = run(command);
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<std::string> named = command;
    named.insert(named.end(), {"--schedule", "default"});
    EXPECT_EQ(result.out, run(named).out);
    EXPECT_TRUE(contains(result.out, "annotate")) << result.out;
  }
  EXPECT_EQ(run({"show", "--op", kOp, "--schedules", "."}).code, 2);
}

TEST(Targets, ListsHostMachinesAndAliases) {
  const Finished result = run({"targets"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out.rfind("target  ", 0), 0u) << result.out;
  EXPECT_TRUE(contains(result.out, "\nhost  "));
  std::stringstream lines(result.out);
  std::map<std::string, std::vector<std::string>> rows;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 95u) << line;
    std::stringstream words(line);
    std::string name, word;
    for (words >> name; words >> word;) rows[name].push_back(word);
  }
  EXPECT_EQ(rows["neoverse-v1"], (std::vector<std::string>{"cpu", "aarch64", "neoverse-v1", "64",
                                                           "32x16", "64K/1M/32M", "graviton3"}));
  EXPECT_EQ(rows["h200"].at(0), "cuda");
  EXPECT_EQ(rows["armv8-a"].back(), "32K/256K") << "no L3, and no other name";
}

TEST(Targets, AsJsonWithTheLineThatPlansHold) {
  const Finished result = run({"targets", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const nlohmann::json list = nlohmann::json::parse(result.out);
  ASSERT_GT(list.size(), 20u);
  EXPECT_EQ(list.at(0).at("name"), "host");
  for (const nlohmann::json& t : list) {
    const std::string begin = t.at("name").get<std::string>() + " triple=";
    EXPECT_EQ(t.at("text").get<std::string>().rfind(begin, 0), 0u);
  }
}

}  // namespace
}  // namespace tessera::cli
