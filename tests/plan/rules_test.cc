#include "tessera/frontend/plan/rules.h"

#include <gtest/gtest.h>

#include "tessera/machine/target/fast_math.h"

namespace tessera::plan {
namespace {

std::string preferred_of(const Shape& map, const Rules& rules) {
  Convolution c;
  c.in = c.out = map;
  c.window = c.strides = c.dilations = c.before = c.after = Shape(map.size() - 2, 1);
  c.window = Shape(map.size() - 2, 3);
  return preferred_algorithm(c, rules);
}

std::string preferred(const char* machine, std::int64_t size) {
  const Rules rules = rules_for(target::find_target(machine).value());
  return preferred_of({1, size, size, 64}, rules);
}

TEST(Rules, MachinesTransformFromTheirOwnSizesOn) {
  EXPECT_EQ(preferred("neoverse-v1", 56), "winograd4");
  EXPECT_NE(preferred("neoverse-v1", 14), "direct");
  EXPECT_EQ(preferred("h200", 56), "winograd4");
  EXPECT_EQ(preferred("h200", 14), "direct");
}

TEST(Rules, FramesOfAllMachinesAreTransformed) {
  for (const char* machine : {"neoverse-v1", "sapphirerapids", "haswell", "h200"}) {
    const Rules rules = rules_for(target::find_target(machine).value());
    EXPECT_EQ(preferred_of({1, 16, 56, 56, 64}, rules), "winograd4") << machine;
    EXPECT_EQ(preferred_of({1, 64, 4, 4, 64}, rules), "direct") << machine;
  }
}

// What the transforms add up, tf32 would round.
TEST(Rules, ProductsInTf32AreDirect) {
  const target::Target h200 = target::find_target("h200").value();
  const Rules rules = rules_for(target::allow_fast_math(h200, "tf32").value());
  EXPECT_EQ(preferred_of({1, 56, 56, 64}, rules), "direct");
}

// Parts of bf16 lose nothing that the transforms would multiply.
TEST(Rules, ProductsAreSplitWhereAllowed) {
  const target::Target h200 = target::find_target("h200").value();
  EXPECT_EQ(rules_for(h200).split_products, 0);
  const Rules rules = rules_for(target::allow_fast_math(h200, "bf16x6").value());
  EXPECT_GT(rules.split_products, 0);
  EXPECT_TRUE(rules.winograd);
}

TEST(Rules, GpusTakeFewerLargerKernels) {
  const Rules cpu = rules_for(target::host());
  EXPECT_FALSE(cpu.merge_contractions || cpu.moves_inside);
  EXPECT_EQ(cpu.attention_keys, 0);
  const Rules gpu = rules_for(target::find_target("h200").value());
  EXPECT_TRUE(gpu.merge_contractions && gpu.slices_in_place && gpu.moves_inside);
  EXPECT_GT(gpu.attention_keys, 0);
}

}  // namespace
}  // namespace tessera::plan
