#include "tessera/trials/measure/step_fields.h"

#include <gtest/gtest.h>

namespace tessera::measure {
namespace {

// One of every kind, with nothing left at its default.
constexpr const char* kAll =
    "split C i 4 8 outer tail=peel\n"
    "follow_split D i 0 2 tail=pad\n"
    "follow_fused_split D f 1 0,2 outer\n"
    "fuse C i.0 j.0\n"
    "reorder C i.0 j.0 k i.1 j.1\n"
    "annotate C i.0 parallel\n"
    "tensorize C j.1 dot4\n"
    "pragma C i.0 auto_unroll_max_step 64\n"
    "compute_at P C j.0\n"
    "compute_inline P\n"
    "compute_root P\n"
    "cache_read A local C D\n"
    "cache_write C local\n"
    "rfactor C k.1 1\n"
    "storage_align P 1 32 8\n"
    "layout W d0/12 d1 d0%12\n"
    "prefetch C k.0 A 4\n";

TEST(StepFields, EveryKindOfStepArrivesAsItWasSent) {
  const schedule::Schedule sent = schedule::schedule_from_text(kAll).value();
  EXPECT_EQ(sent.steps.size(), std::variant_size_v<schedule::Step>);
  schedule::Schedule arrived;
  ASSERT_TRUE(decode(Frame{Kind::kSubmit, encode(sent)}, &arrived));
  EXPECT_EQ(schedule::to_text(arrived), kAll);
}

TEST(StepFields, WhatIsCutShortIsRefused) {
  const std::string bytes = encode(schedule::schedule_from_text(kAll).value());
  for (const std::size_t size : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
    schedule::Schedule arrived;
    EXPECT_FALSE(decode(Frame{Kind::kSubmit, bytes.substr(0, size)}, &arrived)) << size;
  }
}

}  // namespace
}  // namespace tessera::measure
