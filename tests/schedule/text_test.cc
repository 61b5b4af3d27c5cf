// The text form of steps and schedules.
#include <set>

#include <gtest/gtest.h>

#include "tessera/scheduling/schedule/step.h"

namespace tessera::schedule {
namespace {

// One of each kind and each option, in the order of the variant.
constexpr const char* kSteps[] = {
    "split C i 4",
    "split C i 4 8",
    "split C i 4 8 2 outer tail=peel",
    "split C.local i.0@j.1 3 tail=pad",
    "follow_split D i 0 2",
    "follow_split D i 12 1 tail=peel",
    "follow_fused_split D f 1 0,2",
    "follow_fused_split D f 0 3 outer",
    "fuse C i.0 j.0 k",
    "reorder C i.0 j.0 k i.1 j.1",
    "annotate C i none",
    "annotate C i unroll",
    "annotate C i vectorize",
    "annotate C i parallel",
    "annotate C i vthread",
    "annotate C i blockIdx.x",
    "annotate C i blockIdx.y",
    "annotate C i blockIdx.z",
    "annotate C i threadIdx.x",
    "annotate C i threadIdx.y",
    "annotate C i threadIdx.z",
    "tensorize C j.1 dot4",
    "tensorize C j.1 dot2",
    "tensorize C j.1 mma2x8",
    "tensorize C j.1 mma2x4",
    "pragma C i.0 auto_unroll_max_step 64",
    "pragma C k pipeline 3",
    "pragma C k pipeline_pieces 2",
    "compute_at P C j.0",
    "compute_inline P",
    "compute_root P",
    "cache_read A local C D",
    "cache_read A shared C",
    "cache_write C local",
    "rfactor C k.1 0",
    "storage_align P 0 32 8",
    "layout W d0/12 d1 d0%12",
    "layout W d0/12 d1 d0/4%3 d0%4",
    "prefetch C k.0 A 4",
};

TEST(StepText, EveryKindReadsBack) {
  std::set<std::size_t> kinds;
  for (const char* text : kSteps) {
    const auto step = step_from_text(text);
    ASSERT_TRUE(step.ok()) << text << ": " << step.error().message;
    EXPECT_EQ(to_text(*step), text);
    kinds.insert(step->index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Step>);
}

TEST(StepText, SpacesAndTheDefaultTailAreNormalised) {
  const auto step = step_from_text("  split\tC  i 4 tail=guard \r");
  ASSERT_TRUE(step.ok()) << step.error().message;
  EXPECT_EQ(to_text(*step), "split C i 4");
}

TEST(ScheduleText, ReadsBackAsAWhole) {
  std::string text;
  for (const char* step : kSteps) text += std::string(step) + "\n";
  const auto schedule = schedule_from_text(text);
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  EXPECT_EQ(to_text(*schedule), text);
}

TEST(ScheduleText, SkipsCommentsAndEmptyLines) {
  const auto schedule =
      schedule_from_text("# op: matmul\n\n  \t\nsplit C i 4  # four rows\r\nfuse C i.0 i.1");
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  EXPECT_EQ(to_text(*schedule), "split C i 4\nfuse C i.0 i.1\n");
  EXPECT_TRUE(schedule_from_text("").value().steps.empty());
}

struct BadText {
  const char* name;
  const char* text;
  const char* part;
};

void PrintTo(const BadText& b, std::ostream* out) { *out << b.text; }

class BadScheduleText : public ::testing::TestWithParam<BadText> {};

TEST_P(BadScheduleText, ErrorNamesLineAndReason) {
  const auto schedule =
      schedule_from_text(std::string("# comment\nsplit C i 4\n") + GetParam().text + "\n");
  ASSERT_FALSE(schedule.ok());
  EXPECT_EQ(schedule.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(schedule.error().message.rfind("line 3: ", 0), 0u) << schedule.error().message;
  EXPECT_NE(schedule.error().message.find(GetParam().part), std::string::npos)
      << schedule.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadScheduleText,
    ::testing::Values(
        BadText{"UnknownVerb", "slpit C i 4",
                "unknown step 'slpit'; steps are: split follow_split"},
        BadText{"NoStage", "split", "split: missing stage"},
        BadText{"NoLoop", "split C", "split: missing loop"},
        BadText{"NoLength", "split C i", "split: missing length"},
        BadText{"LengthNotANumber", "split C i x", "split: length must be a number, not 'x'"},
        BadText{"LengthTooLong", "split C i 99999999999999999999", "length must be a number"},
        BadText{"LengthWithTail", "split C i 4x", "length must be a number, not '4x'"},
        BadText{"UnknownTail", "split C i 4 tail=round", "unexpected 'tail=round'"},
        BadText{"LeftOver", "compute_inline P Q", "compute_inline: unexpected 'Q'"},
        BadText{"FollowSource", "follow_split D i first 2",
                "source step must be a number, not 'first'"},
        BadText{"FollowParts", "follow_split D i 0", "missing number of lengths"},
        BadText{"FollowSourceTooLarge", "follow_split D i 4294967296 1",
                "source step 4294967296 is out of range"},
        BadText{"FusedSources", "follow_fused_split D f 0 1,x",
                "source steps must be a number, not 'x'"},
        BadText{"FusedSourceTooLarge", "follow_fused_split D f 0 4294967296",
                "source steps 4294967296 is out of range"},
        BadText{"NoAnnotation", "annotate C i", "missing annotation"},
        BadText{"UnknownAnnotation", "annotate C i fast", "unknown annotation 'fast'"},
        BadText{"UnknownIntrinsic", "tensorize C j dot8",
                "unknown intrinsic 'dot8'; intrinsics are: dot4"},
        BadText{"UnknownPragma", "pragma C i unroll 3", "unknown pragma 'unroll'"},
        BadText{"PragmaValue", "pragma C i auto_unroll_max_step", "missing value"},
        BadText{"ComputeAtLoop", "compute_at P C", "missing loop"},
        BadText{"CacheReadScope", "cache_read A", "missing scope"},
        BadText{"CacheWriteScope", "cache_write C", "missing scope"},
        BadText{"RFactorAxis", "rfactor C k", "missing axis"},
        BadText{"AlignOffset", "storage_align P 0 32", "missing offset"},
        BadText{"LayoutPart", "layout W d0/12 x", "layout part 'x' is not of the form"},
        BadText{"LayoutZero", "layout W d0/0", "layout part 'd0/0'"},
        BadText{"LayoutModulus", "layout W d0%", "layout part 'd0%'"},
        BadText{"LayoutDim", "layout W d99", "layout part 'd99'"},
        BadText{"PrefetchDistance", "prefetch C k A far", "distance must be a number, not 'far'"}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tessera::schedule
