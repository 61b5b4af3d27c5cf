#include "tessera/lang/ir/shared_places.h"

#include <gtest/gtest.h>

#include "tessera/lang/ir/text.h"

namespace tessera::ir {
namespace {

// Two buffers of 256 bytes, then one of 512; `between` lies before the last.
SharedPlaces places(const std::string& between) {
  const auto program = parse_device_program(
      "device d(A: f32[64]) -> (B: f32[128]) {\n"
      "  launch d(A) -> (B) {\n"
      "    grid bx in 1, by in 1, bz in 1\n"
      "    block tx in 64, ty in 1, tz in 1\n"
      "    shared late: f32[128]\n"
      "    shared a: f32[64]\n"
      "    shared b: f32[64]\n"
      "    a[tx] = A[tx]\n"
      "    b[tx] = A[tx]\n"
      "    barrier\n"
      "    alloc sum: f32[1] stack {\n"
      "      sum[0] = a[63 - tx] + b[63 - tx]\n" +
      between +
      "      late[tx] = sum[0]\n"
      "      late[tx + 64] = sum[0]\n"
      "    }\n"
      "    barrier\n"
      "    B[tx] = late[127 - tx]\n"
      "    B[tx + 64] = late[63 - tx]\n"
      "  }\n"
      "}\n");
  EXPECT_TRUE(program.ok()) << program.error().message;
  return place_shared(program->launches[0]);
}

TEST(SharedPlaces, BuffersOfOneTimeLieBesideEachOther) {
  const SharedPlaces p = places("");
  EXPECT_EQ(p.offsets, (std::vector<std::int64_t>{0, 512, 768}));
  EXPECT_EQ(p.bytes, 1024);
  EXPECT_FALSE(p.overlap);
}

TEST(SharedPlaces, WhatIsUsedAfterABarrierTakesThePlaceOfWhatWasUsedBefore) {
  const SharedPlaces p = places("      barrier\n");
  EXPECT_EQ(p.offsets, (std::vector<std::int64_t>{0, 0, 256}));
  EXPECT_EQ(p.bytes, 512);
  EXPECT_TRUE(p.overlap);
}

TEST(SharedPlaces, ABarrierInALoopSeparatesNothing) {
  const SharedPlaces p = places("      for i in 2 {\n        barrier\n      }\n");
  EXPECT_EQ(p.bytes, 1024);
}

}  // namespace
}  // namespace tessera::ir
