#include "tessera/machine/target/core_table.h"

#include <gtest/gtest.h>

namespace tessera::target {
namespace {

TEST(CoreTable, EveryMachineHasARowOfItsArchitecture) {
  for (const std::string& name : target_names()) {
    const Target t = find_target(name).value();
    if (!t.is_gpu()) {
      EXPECT_EQ(core_of(t).arch, t.arch) << name;
    }
  }
  EXPECT_EQ(core_of(Arch::kAArch64, "neoverse-v1").cpu, "neoverse-v1");
  EXPECT_EQ(core_of(Arch::kAArch64, "no such core").arch, Arch::kAArch64);
}

TEST(CoreTable, RowsAreComplete) {
  for (const Core& c : cores()) {
    EXPECT_GT(c.panel_share * c.block_share, 0) << c.cpu;
    EXPECT_LT(c.panel_share, 1) << c.cpu;
    EXPECT_GE(c.most_rows, c.scattered_rows) << c.cpu;
    EXPECT_GE(c.unrolled_body, c.body) << c.cpu;
    EXPECT_FALSE(c.tile_counts.empty()) << c.cpu;
    EXPECT_EQ(c.tile_counts[0], 1) << c.cpu;
    EXPECT_GE(c.most_exp_vectors, c.exp_vectors) << c.cpu;
    EXPECT_GE(c.most_alive, c.most_alive_staggered) << c.cpu;
  }
}

}  // namespace
}  // namespace tessera::target
