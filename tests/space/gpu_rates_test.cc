// Estimates of products follow the rates of the machine's row; those of an H200, where they were
// fitted, are its constants alone.
#include <gtest/gtest.h>

#include "tessera/scheduling/space/gpu/gpu_block.h"
#include "tessera/scheduling/space/gpu/gpu_group.h"
#include "tessera/scheduling/space/gpu/gpu_tensor.h"

namespace tessera::space {
namespace {

using target::Rates;

const target::Target& h200() {
  static const target::Target target = target::find_target("h200").value();
  return target;
}

// The same machine with another rate.
target::Target with(double Rates::*rate, double value) {
  target::Target out = h200();
  out.rates.*rate = value;
  return out;
}

const TensorProblem kProblem{.row = 1024, .column = 768, .batch = 2, .reduce = 512};
const TensorProblem kPlanes{.row = 1024, .column = 768, .reduce = 512, .taps = 6, .planes = 3};

double warps(const target::Target& target, std::int64_t split_k = 1) {
  return estimate_tensor_cycles(target, kProblem, {.split_k = split_k});
}
double groups(const target::Target& target, const TensorProblem& p) {
  return estimate_group_cycles(target, p, {});
}

TEST(GpuRates, ThoseOfAnH200AreWhatWasFitted) {
  target::Target unknown = h200();  // every factor is 1, every rate that of an H200
  unknown.rates = {};
  for (const std::int64_t split_k : {1, 4})
    EXPECT_EQ(warps(h200(), split_k), warps(unknown, split_k));
  EXPECT_EQ(groups(h200(), kProblem), groups(unknown, kProblem));
  EXPECT_EQ(groups(h200(), kPlanes), groups(unknown, kPlanes));
}

TEST(GpuRates, HalfOfAnyMakesProductsSlower) {
  for (double Rates::*rate : {&Rates::mma_per_cycle, &Rates::shared_bytes_per_cycle,
                              &Rates::l2_bytes_per_cycle, &Rates::store_bytes_per_cycle})
    EXPECT_GT(warps(with(rate, h200().rates.*rate / 2)), warps(h200()));
  for (double Rates::*rate : {&Rates::dispatch_cycles, &Rates::block_start_cycles})
    EXPECT_LT(warps(with(rate, h200().rates.*rate / 2)), warps(h200()));
  const auto slow_reads = with(&Rates::shared_bytes_per_cycle, 1);
  EXPECT_GT(groups(slow_reads, kPlanes), groups(h200(), kPlanes));
  const auto slow_copies = with(&Rates::l2_bytes_per_cycle, 1);
  EXPECT_GT(groups(slow_copies, kProblem), groups(h200(), kProblem));
}

TEST(GpuRates, AMachineWithAFewHasTheOthersOfAnH200) {
  const target::Target a100 = target::find_target("a100").value();
  ASSERT_GT(a100.rates.mma_per_cycle, 0);
  ASSERT_EQ(a100.rates.barrier_cycles, 0) << "nobody has fitted it";
  EXPECT_EQ(gpu_rate(a100, &Rates::mma_per_cycle), a100.rates.mma_per_cycle);
  EXPECT_EQ(gpu_rate(a100, &Rates::barrier_cycles), h200().rates.barrier_cycles);
  EXPECT_EQ(beside_h200(a100, &Rates::barrier_cycles), 1);
  EXPECT_EQ(beside_h200(a100, &Rates::mma_per_cycle),
            a100.rates.mma_per_cycle / h200().rates.mma_per_cycle);
  target::Target unscaled = a100;
  unscaled.rates.mma_per_cycle = 0;
  EXPECT_GT(warps(a100), warps(unscaled)) << "its products take longer than those of an H200";
}

}  // namespace
}  // namespace tessera::space
