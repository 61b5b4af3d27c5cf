#include "tessera/machine/target/matrix_instructions.h"

#include <gtest/gtest.h>

#include "tessera/machine/target/features.h"

namespace tessera::target {
namespace {

std::string named(const char* machine, Operands operands, DType a, DType b) {
  const MatrixInstruction* row = find_matrix(find_target(machine).value(), operands, a, b);
  return row ? std::string(row->name) : "";
}

TEST(MatrixInstructions, GrowWithTheGeneration) {
  constexpr auto kF16 = DType::kF16;
  EXPECT_EQ(named("v100", Operands::kFragments, kF16, kF16), "");
  EXPECT_EQ(named("t4", Operands::kFragments, kF16, kF16), "");
  EXPECT_EQ(named("a100", Operands::kFragments, kF16, kF16), "mma16x16x16");
  EXPECT_EQ(named("a100", Operands::kTiles, kF16, kF16), "");
  EXPECT_EQ(named("h200", Operands::kTiles, kF16, kF16), "wgmma");
  EXPECT_EQ(named("rtx4090", Operands::kFragments, DType::kF32, DType::kF32), "mma16x16x8");
  EXPECT_EQ(named("h200", Operands::kFragments, DType::kI8, DType::kU8), "mma16x16x32");
  EXPECT_EQ(named("h200", Operands::kTiles, DType::kU8, DType::kI8), "wgmma_i8");
  EXPECT_EQ(named("h200", Operands::kTiles, DType::kF32, DType::kF32), "wgmma_tf32");
  EXPECT_EQ(named("h200", Operands::kTiles, DType::kF8E4M3, DType::kF8E5M2), "wgmma_f8");
  EXPECT_EQ(named("h200", Operands::kTiles, DType::kF8E4M3, DType::kI8), "") << "types differ";
  EXPECT_EQ(named("h200", Operands::kFragments, DType::kF8E4M3, DType::kF8E4M3), "");
  EXPECT_EQ(named("h200", Operands::kFragments, kF16, DType::kBF16), "") << "types differ";
  EXPECT_EQ(named("opencl-1.2", Operands::kFragments, kF16, kF16), "");
}

TEST(MatrixInstructions, OfBothSignsNeedADriverThatKnowsThem) {
  Target h200 = find_target("h200").value();
  EXPECT_EQ(lacking_features(84), "");
  EXPECT_EQ(lacking_features(90), "");
  h200.features += lacking_features(83);
  const auto named = [&](DType a, DType b) {
    const MatrixInstruction* row = find_matrix(h200, Operands::kTiles, a, b);
    return row ? row->name : "";
  };
  EXPECT_EQ(named(DType::kU8, DType::kI8), "");
  EXPECT_EQ(named(DType::kI8, DType::kI8), "wgmma_i8");
  EXPECT_EQ(named(DType::kF8E4M3, DType::kF8E5M2), "wgmma_f8");
}

TEST(MatrixInstructions, OfProcessorsFollowSigns) {
  const auto dot = [](const char* machine, DType a, DType b) {
    return named(machine, Operands::kLanes, a, b);
  };
  constexpr auto kI8 = DType::kI8, kU8 = DType::kU8;
  EXPECT_EQ(dot("icelake-server", kI8, kI8), "dot4");
  EXPECT_EQ(dot("icelake-server", kU8, kI8), "dot4");
  EXPECT_EQ(dot("icelake-server", kU8, kU8), "");
  EXPECT_EQ(dot("skylake-avx512", kI8, kI8), "");
  EXPECT_EQ(dot("neoverse-n1", kU8, kU8), "dot4");
  EXPECT_EQ(dot("neoverse-n1", kU8, kI8), "") << "usdot came with i8mm";
  EXPECT_EQ(dot("neoverse-v1", kU8, kI8), "dot4");
  EXPECT_EQ(dot("neoverse-v1", DType::kBF16, DType::kBF16), "dot2");
  EXPECT_EQ(dot("sapphirerapids", DType::kBF16, DType::kBF16), "dot2");
  EXPECT_EQ(named("neoverse-v1", Operands::kVectors, kI8, kI8), "mma2x8");
  EXPECT_EQ(named("sapphirerapids", Operands::kVectors, kI8, kI8), "");
  for (const DType a : {kI8, kU8}) {
    for (const DType b : {kI8, kU8})
      EXPECT_EQ(named("sapphirerapids", Operands::kTileRegisters, a, b), "tile16x16x64");
  }
  EXPECT_EQ(named("sapphirerapids", Operands::kTileRegisters, DType::kBF16, DType::kBF16),
            "tile16x16x32");
  EXPECT_EQ(named("znver4", Operands::kTileRegisters, DType::kBF16, DType::kBF16), "");
}

TEST(MatrixInstructions, RowsOfOneNameMeanTheSame) {
  for (const MatrixInstruction& row : matrix_instructions()) {
    const MatrixInstruction* first = find_matrix(row.name);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->operands, row.operands) << row.name;
    EXPECT_EQ(first->threads, row.threads) << row.name;
    EXPECT_EQ((std::array{first->m, first->n, first->k}), (std::array{row.m, row.n, row.k}));
    EXPECT_EQ(first->types, row.types) << row.name;
    EXPECT_EQ(first->sums, row.sums) << row.name;
    EXPECT_EQ(find_warp_matrix(row.name) != nullptr, row.threads > 1) << row.name;
  }
  EXPECT_FALSE(find_matrix("mma3x3"));
}

// What a new instruction needs is its row.
TEST(MatrixInstructions, AMadeUpRowIsOfferedToWhoHasItsFeature) {
  const MatrixInstruction row = {.name = "dot8",
                                 .operands = Operands::kLanes,
                                 .threads = 1,
                                 .m = 0,
                                 .n = 0,
                                 .k = 8,
                                 .types = {DType::kI8, DType::kI8},
                                 .sums = DType::kI32,
                                 .arch = Arch::kAArch64,
                                 .needs = {&Target::has_i8_mma, nullptr, nullptr}};
  const Target v1 = find_target("neoverse-v1").value(), n1 = find_target("neoverse-n1").value();
  EXPECT_TRUE(offers(v1, row, DType::kI8, DType::kI8));
  EXPECT_FALSE(offers(v1, row, DType::kI8, DType::kU8)) << "it takes no u8";
  EXPECT_FALSE(offers(n1, row, DType::kI8, DType::kI8)) << "it lacks the feature";
  EXPECT_FALSE(offers(find_target("icelake-server").value(), row, DType::kI8, DType::kI8));
  EXPECT_EQ(find_matrix("dot8", std::span(&row, 1)), &row);
}

}  // namespace
}  // namespace tessera::target
