// Code for several targets at the same time: what LLVM keeps for the whole process must not leak.
#include <thread>

#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "micro_kernel.h"

namespace tessera::codegen {
namespace {

std::vector<std::vector<std::uint8_t>> compile_all(const target::Target& target) {
  std::vector<std::vector<std::uint8_t>> out;
  for (const std::int64_t depth : {16, 33, 64, 128}) {
    for (const auto& [rows, cols] : {std::pair{8, 12}, {4, 8}, {6, 16}}) {
      const Result<Binary> binary = compile_kernel(micro_kernel(rows, cols, 4, depth), target);
      if (binary.ok()) out.push_back(binary->bytes);
    }
  }
  return out;
}

TEST(ThreadsTest, TwoTargetsInTwoThreadsGiveTheBytesOfOneAfterTheOther) {
  const std::vector<target::Target> targets = {aarch64_target(), avx2_target()};
  std::vector<std::vector<std::vector<std::uint8_t>>> alone, together(targets.size());
  for (const target::Target& t : targets) {
    alone.push_back(compile_all(t));
    EXPECT_EQ(alone.back().size(), 12u);
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      threads.emplace_back([&, i] { together[i] = compile_all(targets[i]); });
    }
    for (std::thread& t : threads) t.join();
    for (std::size_t i = 0; i < targets.size(); ++i) {
      EXPECT_TRUE(together[i] == alone[i]) << targets[i].name;
    }
  }
}

}  // namespace
}  // namespace tessera::codegen
