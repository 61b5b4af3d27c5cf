#include "tessera/scheduling/lower/warp_instruction.h"

#include "tessera/lang/ir/group_tile.h"

namespace tessera::lower {
namespace {

constexpr std::array kInstructions = {
    WarpInstruction{
        "mma16x16x8", ir::kFragmentThreads, 16, 16, 8, {DType::kF32, DType::kF32}, DType::kF32},
    WarpInstruction{
        "mma16x16x16", ir::kFragmentThreads, 16, 16, 16, {DType::kF16, DType::kBF16}, DType::kF32},
    WarpInstruction{
        "mma16x16x32", ir::kFragmentThreads, 16, 16, 32, {DType::kI8, DType::kU8}, DType::kI32},
    WarpInstruction{"wgmma",
                    ir::kGroupThreads,
                    ir::kGroupRows,
                    0,
                    ir::kGroupDepth,
                    {DType::kF16, DType::kBF16},
                    DType::kF32},
};

}  // namespace

const WarpInstruction* find_warp_instruction(std::string_view name) {
  for (const WarpInstruction& i : kInstructions) {
    if (name == i.name) return &i;
  }
  return nullptr;
}

}  // namespace tessera::lower
