#include "tessera/machine/target/fast_math.h"

#include <gtest/gtest.h>

#include "tessera/machine/target/match.h"

namespace tessera::target {
namespace {

TEST(FastMath, IsPartOfTheTextAndComesOffAgain) {
  const Target machine = find_target("h200").value();
  EXPECT_EQ(products_of(machine), Products::kExact);
  const Target fast = allow_fast_math(machine, "tf32").value();
  EXPECT_EQ(products_of(fast), Products::kTf32);
  EXPECT_NE(to_text(fast), to_text(machine));
  EXPECT_EQ(to_text(target_from_text(to_text(fast)).value()), to_text(fast));
  EXPECT_EQ(to_text(without_fast_math(fast)), to_text(machine));
  EXPECT_EQ(to_text(allow_fast_math(fast, "tf32").value()), to_text(fast));
  EXPECT_EQ(to_text(allow_fast_math(machine, "").value()), to_text(machine));
}

// Records and plans have texts from when it stood among the features.
TEST(FastMath, IsReadFromOldTexts) {
  const Target machine = find_target("h200").value();
  for (const char* what : {"tf32", "bf16x6"}) {
    const Target fast = allow_fast_math(machine, what).value();
    EXPECT_EQ(fast.features, machine.features);
    EXPECT_NE(to_text(fast).find(std::string(" fast_math=") + what), std::string::npos);
    std::string old = to_text(machine);
    const std::string features = "features=" + machine.features;
    old.replace(old.find(features), features.size(), features + ",+" + what);
    const Target read = target_from_text(old).value();
    EXPECT_EQ(to_text(read), to_text(fast));
    EXPECT_TRUE(same_machine(read, fast));
    EXPECT_FALSE(same_machine(read, machine));
  }
}

TEST(FastMath, UnknownTextsAreRefused) {
  const auto read = target_from_text(to_text(find_target("h200").value()) + " fast_math=tf23");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, "fast math 'tf23' is not known; there is: tf32, bf16x6");
}

// Parts in bf16 lose nothing that a tolerance would have to allow.
TEST(FastMath, PartsTakeThePlaceOfRounding) {
  const Target machine = find_target("h200").value();
  EXPECT_FALSE(splits_products(machine));
  const Target rounds = allow_fast_math(machine, "tf32").value();
  const Target splits = allow_fast_math(rounds, "bf16x6").value();
  EXPECT_TRUE(splits_products(splits));
  EXPECT_FALSE(splits_products(rounds));
  EXPECT_EQ(products_of(splits), Products::kExact);
  EXPECT_EQ(to_text(target_from_text(to_text(splits)).value()), to_text(splits));
  EXPECT_EQ(to_text(without_fast_math(splits)), to_text(machine));
  EXPECT_EQ(mismatch(splits, machine), "");
  const auto refused = allow_fast_math(find_target("t4").value(), "bf16x6");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "fast math bf16x6: t4 has no tensor cores for bf16");
}

TEST(FastMath, IsRefusedWhereThereIsNone) {
  for (const char* name : {"v100", "t4", "opencl-1.2", "host"}) {
    const auto refused = allow_fast_math(find_target(name).value(), "tf32");
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(refused.error().message,
              "fast math tf32: " + std::string(name) + " has no tensor cores for f32");
  }
  const auto unknown = allow_fast_math(find_target("h200").value(), "tf23");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message, "fast math 'tf23' is not known; there is: tf32, bf16x6");
}

// Exact code is good for whoever allows more, not the other way round.
TEST(FastMath, PlansThatRoundAreNotForThoseWhoDoNotAllowIt) {
  const Target machine = find_target("a100").value();
  const Target fast = allow_fast_math(machine, "tf32").value();
  EXPECT_EQ(mismatch(machine, fast), "");
  EXPECT_EQ(mismatch(fast, machine), "made with products in tf32, wanted without (fast math)");
}

}  // namespace
}  // namespace tessera::target
