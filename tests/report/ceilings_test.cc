#include "tessera/app/report/ceilings.h"

#include <gtest/gtest.h>

namespace tessera::report {
namespace {

TEST(Ceilings, TheLongerOfComputingAndMoving) {
  const Ceilings c{.gflops = {{"f32", 100}},
                   .levels = {{"L1", 32e3, 200}, {"L2", 1e6, 100}, {"memory", 0, 10}}};
  EXPECT_DOUBLE_EQ(least_time_s(c, "f32", 1e9, 1e3, false), 1e-2);   // computing
  EXPECT_DOUBLE_EQ(least_time_s(c, "f32", 1, 20e3, false), 1e-7);    // L1 holds it
  EXPECT_DOUBLE_EQ(least_time_s(c, "f32", 1, 500e3, false), 5e-6);   // L2
  EXPECT_DOUBLE_EQ(least_time_s(c, "f32", 1, 20e3, true), 2e-6);     // constants in memory
  EXPECT_DOUBLE_EQ(least_time_s(c, "f32", 1, 10e6, false), 1e-3);    // memory
  EXPECT_DOUBLE_EQ(least_time_s(c, "i8", 1e12, 20e3, false), 1e-7);  // its rate is not known
  EXPECT_EQ(least_time_s({}, "f32", 1e9, 1e9, false), 0);
}

TEST(Ceilings, BytesWithoutSignHaveTheRateOfBytes) {
  const Ceilings both{.gflops = {{"f32", 100}, {"i8", 400}}};
  EXPECT_EQ(peak_gflops(both, "u8"), 400);
  EXPECT_EQ(peak_gflops(both, "i8"), 400);
  EXPECT_EQ(peak_gflops(both, "u16"), 0);
  EXPECT_EQ(peak_gflops({.gflops = {{"i8", 400}, {"u8", 300}}}, "u8"), 300);
  EXPECT_EQ(peak_gflops({.gflops = {{"i8", -1}}}, "u8"), 0);
  EXPECT_DOUBLE_EQ(least_time_s(both, "u8", 4e11, 0, false), 1);
}

TEST(Ceilings, OfGpusByTheirDatasheet) {
  const Result<target::Target> h200 = target::find_target("h200");
  ASSERT_TRUE(h200.ok());
  const std::optional<Ceilings> c = datasheet_ceilings(*h200);
  ASSERT_TRUE(c.has_value());
  EXPECT_GT(c->gflops.at("f32"), 10000);
  EXPECT_GT(c->levels.back().gbytes_s, 1000);
  EXPECT_FALSE(datasheet_ceilings(target::host()).has_value());
}

}  // namespace
}  // namespace tessera::report
