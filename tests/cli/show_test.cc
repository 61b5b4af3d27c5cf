// Every stage of `tessera show`, for both architectures.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

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

TEST(Show, OperationWithoutAFileGetsTheDefaultSchedule) {
  const Finished result =
      run({"show", "--op", kOp, "--stage", "schedule", "--schedules", "/no/such/folder"});
  EXPECT_EQ(result.code, 0) << result.err;
  const Finished standard =
      run({"show", "--op", kOp, "--stage", "schedule", "--schedule", "default"});
  EXPECT_EQ(result.out, standard.out);
  EXPECT_TRUE(contains(result.out, "vectorize"));
}

// Files written for one width of vectors are not taken for another.
TEST(Show, SchedulesOfAnotherVectorWidthArePassedOver) {
  write_file("widths/x86_64/narrow.txt", "# op: matmul:vector=32\nannotate C i unroll\n");
  const std::string folder =
      std::filesystem::path(write_file("widths/x86_64/wide.txt", "# op: matmul:vector=64\n"))
          .parent_path()
          .parent_path()
          .string();
  const auto shown = [&](const char* target) {
    return run({"show", "--op", kOp, "--stage", "schedule", "--schedules", folder, "--target",
                target})
        .out;
  };
  EXPECT_TRUE(contains(shown("haswell"), "unroll"));
  EXPECT_FALSE(contains(shown("skylake-avx512"), "unroll"));
}

// A folder with a schedule for all products and one for those of 16 rows.
std::string schedule_folder() {
  const std::string general =
      write_file("library/aarch64/general.txt", "# op: matmul\nannotate C i unroll\n");
  write_file("library/aarch64/narrow.txt", "# op: matmul:M=16\nannotate C j unroll\n");
  write_file("library/x86_64/broken.txt", "# op: matmul\nannotate C x unroll\n");
  return std::filesystem::path(general).parent_path().parent_path().string();
}

std::string shown_steps(const std::string& op) {
  const Finished result = run({"show", "--op", op, "--stage", "schedule", "--target", "neoverse-v1",
                               "--schedules", schedule_folder()});
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out.substr(0, result.out.find("\n\n"));
}

TEST(ScheduleFolder, TheMostSpecificFileWins) {
  EXPECT_EQ(shown_steps("matmul:M=16,N=8,K=8"), "annotate C j unroll");
  EXPECT_EQ(shown_steps("matmul:M=8,N=8,K=8"), "annotate C i unroll");
  EXPECT_FALSE(contains(shown_steps("softmax:R=2,C=8"), "annotate C "));
}

TEST(ScheduleFolder, AFileThatDoesNotApplyIsPassedOver) {
  const Finished result = run({"show", "--op", "matmul:M=8,N=8,K=8", "--stage", "schedule",
                               "--target", "haswell", "--schedules", schedule_folder()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(contains(result.out, "annotate C x")) << result.out;
  EXPECT_TRUE(contains(result.out, "vectorize")) << result.out;
}

TEST(Targets, ListsHostMachinesAndAliases) {
  const Finished result = run({"targets"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out.rfind("host triple=", 0), 0u) << result.out;
  EXPECT_TRUE(contains(result.out, "\nneoverse-v1 triple=aarch64"));
  EXPECT_TRUE(contains(result.out, "\nznver4 triple=x86_64"));
  EXPECT_TRUE(contains(result.out, "\ngraviton3 = neoverse-v1\n"));
}

}  // namespace
}  // namespace tessera::cli
