#include "micro_kernel.h"

#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tests/testing/testing.h"

namespace tessera::codegen {
namespace {

// The text from the label of the only loop to its closing branch.
std::string loop_of(const std::string& text) {
  const std::size_t begin = text.find("\n.LBB0_1:");
  const std::size_t end = text.find("b.ne", begin);
  return begin == std::string::npos || end == std::string::npos ? ""
                                                                : text.substr(begin, end - begin);
}

TEST(MicroKernelTest, LoopOnAArch64HasNoOverhead) {
  const auto text = emit_asm(micro_kernel(8, 12, 4, 256), aarch64_target());
  ASSERT_TRUE(text.ok()) << text.error().message;
  const std::string loop = loop_of(*text);
  EXPECT_EQ(count(loop, "fmla\t"), 24) << loop;
  EXPECT_EQ(count(loop, "[sp"), 0) << loop;
  EXPECT_EQ(count(loop, "dup\t"), 0) << loop;
  // 24 fmla, 5 single loads, 2 pointers, the counter and its branch.
  EXPECT_LE(count(loop, "\n\t"), 33) << loop;
  EXPECT_EQ(count(loop, "ldp\t"), 0) << loop;
  // The last load stands between FMAs.
  EXPECT_GT(loop.rfind("\tld"), loop.find("fmla\t")) << loop;
}

TEST(MicroKernelTest, ResultsMatchTheDefinition) {
  Rng rng(11);
  for (const auto& [rows, cols] : {std::pair{8, 12}, {12, 8}, {6, 16}, {5, 4}, {1, 8}}) {
    const std::int64_t depth = 33;
    expect_like_interp(micro_kernel(rows, cols, 4, depth),
                       {random_tensor(DType::kF32, {depth, rows}, rng),
                        random_tensor(DType::kF32, {depth, cols}, rng)},
                       testing::tolerance(DType::kF32, depth));
  }
}

TEST(MicroKernelTest, TimesAreReported) {
  CodegenTimes times;
  ASSERT_TRUE(compile_kernel(micro_kernel(8, 12, 4, 256), target::host(), {}, &times).ok());
  EXPECT_GT(times.build_ms, 0);
  EXPECT_GT(times.optimise_ms, 0);
  EXPECT_GT(times.emit_ms, 0);
}

}  // namespace
}  // namespace tessera::codegen
