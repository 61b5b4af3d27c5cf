// Where time goes, by a made-up machine and profile.
#include "tessera/app/bench/breakdown.h"

#include <gtest/gtest.h>

namespace tessera::app {
namespace {

report::Ceilings machine() {
  return {.gflops = {{"f32", 100}, {"i8", 400}},
          .levels = {{"L1", 1e5, 400}, {"L2", 1e6, 200}, {"L3", 1e7, 50}, {"memory", 0, 10}},
          .source = ""};
}

TEST(Breakdown, PartsAddUpToTheTime) {
  // 1e6 operations take 10 us, 1e5 bytes 2 us from L3 and 10 us from memory.
  const StepFacts step{.us = 40,
                       .dtype = "f32",
                       .flops = 1e6,
                       .far_bytes = 1e5,
                       .waiting_share = 0.1,
                       .cold_share = 0.3};
  const Breakdown near = break_down(step, machine(), 9e6), far = break_down(step, machine(), 2e7);
  EXPECT_DOUBLE_EQ(near.arithmetic_us, 10);
  EXPECT_DOUBLE_EQ(near.waiting_us, 4);
  EXPECT_DOUBLE_EQ(near.memory_us, 2);
  EXPECT_DOUBLE_EQ(near.cold_us, 10) << "of 12 us that a second call saves, 2 are for bytes";
  EXPECT_DOUBLE_EQ(near.rest_us, 14);
  EXPECT_EQ(near.limit(), "other instructions");
  EXPECT_DOUBLE_EQ(far.memory_us, 10);
  EXPECT_DOUBLE_EQ(far.cold_us, 2);
  EXPECT_DOUBLE_EQ(far.us(), 40);
}

TEST(Breakdown, WhatOverlapsCountsOnce) {
  const StepFacts step{.us = 12, .dtype = "f32", .flops = 1e6, .far_bytes = 1e6};
  const Breakdown b = break_down(step, machine(), 2e7);
  EXPECT_DOUBLE_EQ(b.arithmetic_us, 10);
  EXPECT_DOUBLE_EQ(b.memory_us, 2);
  EXPECT_DOUBLE_EQ(b.rest_us, 0);
  EXPECT_EQ(b.limit(), "arithmetic");
  // Winograd's algorithm does fewer operations than are counted.
  EXPECT_DOUBLE_EQ(break_down({.us = 5, .dtype = "f32", .flops = 1e6}, machine(), 0).us(), 5);
}

TEST(Breakdown, BytesWithoutSignHaveTheRateOfBytes) {
  for (const char* bytes : {"u8", "i8"}) {
    EXPECT_DOUBLE_EQ(
        break_down({.us = 5, .dtype = bytes, .flops = 1e6}, machine(), 0).arithmetic_us, 2.5)
        << bytes;
  }
}

TEST(Breakdown, FarBytesAreThoseThatDoNotFit) {
  EXPECT_EQ(far_bytes(100, 200, 1000, 900), 0);
  EXPECT_EQ(far_bytes(100, 200, 1000, 2000), 100) << "weights come anew in every run";
  EXPECT_EQ(far_bytes(100, 2000, 1000, 2000), 2100);
}

TEST(Breakdown, EachTypeHasItsPeak) {
  const auto arithmetic_us = [](const std::string& dtype) {
    return break_down({.us = 40, .dtype = dtype, .flops = 1e6}, machine(), 0).arithmetic_us;
  };
  EXPECT_DOUBLE_EQ(arithmetic_us("i8"), 2.5);
  EXPECT_DOUBLE_EQ(arithmetic_us("f64"), 0) << "nobody measured it";
  EXPECT_DOUBLE_EQ(break_down({.us = 7, .far_bytes = 1e9}, {}, 0).rest_us, 7);
}

TEST(Breakdown, TheSumNamesTheLargestPartFirst) {
  Breakdown a, b;
  a.arithmetic_us = 5000;
  a.memory_us = 1800;
  b.memory_us = 1000;
  b.waiting_us = 300;
  b.cold_us = 5;
  const Breakdown sum = sum_of({a, b});
  EXPECT_DOUBLE_EQ(sum.us(), 8105);
  EXPECT_EQ(to_text(sum), "of 8.1 ms: arithmetic 62 %, memory 35 %, waiting 4 %");
  EXPECT_EQ(to_text(Breakdown()), "of 0.000 ms: ");
}

}  // namespace
}  // namespace tessera::app
