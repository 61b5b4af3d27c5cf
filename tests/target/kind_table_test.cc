#include "tessera/machine/target/kind_table.h"

#include <gtest/gtest.h>

#include "tessera/machine/target/machine_table.h"
#include "tessera/machine/target/target.h"

namespace tessera::target {
namespace {

TEST(Kinds, EveryKindHasItsRow) {
  for (const KindRow& row : kinds()) {
    EXPECT_EQ(row_of(row.kind).name, row.name);
    EXPECT_EQ(kind_from_text(row.name), row.kind);
    EXPECT_EQ(row.launches, row.warp > 0) << row.name;
    EXPECT_EQ(row.launches, !row.triple.empty()) << row.name;
    EXPECT_EQ(row.assembler.empty(), row.assembled.empty()) << row.name;
  }
  EXPECT_EQ(kind_from_text("rocm"), std::nullopt);
}

TEST(Kinds, TextsOfTargetsNameTheKindByItsTriple) {
  for (const std::string& name : target_names()) {
    const Target t = find_target(name).value();
    const Target read = target_from_text(to_text(t)).value();
    EXPECT_EQ(read.kind, t.kind) << name;
    EXPECT_EQ(read.arch, t.arch) << name;
  }
}

TEST(Kinds, AMadeUpMachineMayHaveOtherWarps) {
  GpuMachine wide = gpu_machines().back();
  EXPECT_EQ(make_target(wide).gpu.warp, make_target(wide).row().warp);
  wide.generation.warp = 64;
  const Target t = make_target(wide);
  EXPECT_EQ(t.gpu.warp, 64);
  EXPECT_EQ(target_from_text(to_text(t)).value().gpu.warp, 64);
}

}  // namespace
}  // namespace tessera::target
