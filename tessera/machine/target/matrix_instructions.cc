#include "tessera/machine/target/matrix_instructions.h"

namespace tessera::target {
namespace {

constexpr int kForever = 1000;
constexpr int kMixedGroups = 84;
constexpr int kWarp = 32, kWarpGroup = 128;
using Types = std::array<DType, 2>;
constexpr Types kBytes = {DType::kI8, DType::kU8}, kBf16 = {DType::kBF16, DType::kBF16},
                kHalves = {DType::kF16, DType::kBF16}, kFloats = {DType::kF32, DType::kF32},
                kShort = {DType::kF8E4M3, DType::kF8E5M2};

constexpr MatrixInstruction on_cpu(std::string_view name, Operands operands, int side, int k,
                                   Types types, DType sums, Arch arch,
                                   std::array<bool Target::*, 3> needs,
                                   std::array<std::string_view, 3> emit, int least_bytes) {
  return {.name = name,
          .operands = operands,
          .threads = 1,
          .m = side,
          .n = side,
          .k = k,
          .types = types,
          .sums = sums,
          .arch = arch,
          .needs = needs,
          .emit = emit,
          .least_bytes = least_bytes};
}

constexpr MatrixInstruction on_gpu(std::string_view name, Operands operands, int threads, int m,
                                   int n, int k, Types types, DType sums, int since, int until,
                                   std::string_view opcode, int unit_n, int unit_k,
                                   int mixed_since = 0) {
  return {.name = name,
          .operands = operands,
          .threads = threads,
          .m = m,
          .n = n,
          .k = k,
          .types = types,
          .sums = sums,
          .since = since,
          .until = until,
          .emit = {opcode, opcode, opcode},
          .unit_n = unit_n,
          .unit_k = unit_k,
          .mixed_since = mixed_since};
}

constexpr bool Target::*kDot = &Target::has_i8_dot;
constexpr bool Target::*kMma = &Target::has_i8_mma;
constexpr bool Target::*kTiles = &Target::has_i8_tiles;

// vpdpbusd multiplies unsigned by signed bytes. Two signed operands take it twice: one is made
// unsigned by an offset, whose products are taken off again.
constexpr std::array kRows = {
    on_cpu("dot4", Operands::kLanes, 0, 4, kBytes, DType::kI32, Arch::kX86_64,
           {kDot, nullptr, kDot},
           {"llvm.x86.avx512.vpdpbusd.{}", "", "llvm.x86.avx512.vpdpbusd.{}"}, 16),
    on_cpu("dot4", Operands::kLanes, 0, 4, kBytes, DType::kI32, Arch::kAArch64, {kDot, kDot, kMma},
           {"llvm.aarch64.neon.sdot", "llvm.aarch64.neon.udot", "llvm.aarch64.neon.usdot"}, 8),
    on_cpu("dot2", Operands::kLanes, 0, 2, kBf16, DType::kF32, Arch::kX86_64,
           {&Target::has_bf16_dot}, {"llvm.x86.avx512bf16.dpbf16ps.{}"}, 16),
    on_cpu("dot2", Operands::kLanes, 0, 2, kBf16, DType::kF32, Arch::kAArch64,
           {&Target::has_bf16_dot}, {"llvm.aarch64.neon.bfdot"}, 8),
    on_cpu("mma2x8", Operands::kVectors, 2, 8, kBytes, DType::kI32, Arch::kAArch64,
           {kMma, kMma, kMma},
           {"llvm.aarch64.neon.smmla", "llvm.aarch64.neon.ummla", "llvm.aarch64.neon.usmmla"}, 16),
    on_cpu("mma2x4", Operands::kVectors, 2, 4, kBf16, DType::kF32, Arch::kAArch64,
           {&Target::has_bf16_mma}, {"llvm.aarch64.neon.bfmmla"}, 16),

    on_cpu("tile16x16x64", Operands::kTileRegisters, 16, 64, kBytes, DType::kI32, Arch::kX86_64,
           {kTiles, kTiles, kTiles}, {"llvm.x86.tdpb{}d", "llvm.x86.tdpb{}d", "llvm.x86.tdpb{}d"},
           64),
    on_cpu("tile16x16x32", Operands::kTileRegisters, 16, 32, kBf16, DType::kF32, Arch::kX86_64,
           {&Target::has_bf16_tiles}, {"llvm.x86.tdpbf16ps"}, 64),

    // "Matrix shape" tables of mma.sync and wgmma in the PTX ISA. wgmma ends with its generation.
    on_gpu("mma16x16x8", Operands::kFragments, kWarp, 16, 16, 8, kFloats, DType::kF32, 80, kForever,
           "mma.sync.aligned.m16n8k8.row.col.f32.{}.{}.f32", 8, 8),
    on_gpu("mma16x16x16", Operands::kFragments, kWarp, 16, 16, 16, kHalves, DType::kF32, 80,
           kForever, "mma.sync.aligned.m16n8k16.row.col.f32.{}.{}.f32", 8, 16),
    on_gpu("mma16x16x32", Operands::kFragments, kWarp, 16, 16, 32, kBytes, DType::kI32, 80,
           kForever, "mma.sync.aligned.m16n8k32.row.col.s32.{}.{}.s32", 8, 32),
    on_gpu("wgmma", Operands::kTiles, kWarpGroup, 64, 0, 64, kHalves, DType::kF32, 90, 90,
           "wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{}", 8, 16),
    on_gpu("wgmma_tf32", Operands::kTiles, kWarpGroup, 64, 0, 32, kFloats, DType::kF32, 90, 90,
           "wgmma.mma_async.sync.aligned.m64n{}k8.f32.{}.{}", 8, 8),
    on_gpu("wgmma_i8", Operands::kTiles, kWarpGroup, 64, 0, 128, kBytes, DType::kI32, 90, 90,
           "wgmma.mma_async.sync.aligned.m64n{}k32.s32.{}.{}", 8, 32, kMixedGroups),
    on_gpu("wgmma_f8", Operands::kTiles, kWarpGroup, 64, 0, 128, kShort, DType::kF32, 90, 90,
           "wgmma.mma_async.sync.aligned.m64n{}k32.f32.{}.{}", 8, 32),
};

std::string lacking(int version) { return ",-ptx" + std::to_string(version); }

}  // namespace

Signs signs_of(DType a, DType b) {
  const bool first = a == DType::kU8, second = b == DType::kU8;
  return first != second ? Signs::kMixed : first ? Signs::kUnsigned : Signs::kSigned;
}

std::string lacking_features(int version) {
  std::string out;
  for (const MatrixInstruction& row : kRows) {
    if (row.mixed_since > version) out += lacking(row.mixed_since);
  }
  return out;
}

std::span<const MatrixInstruction> matrix_instructions() { return kRows; }

bool offers(const Target& target, const MatrixInstruction& instruction, DType a, DType b) {
  const bool bytes = size_bytes(a) == 1 && size_bytes(b) == 1;
  if (!instruction.takes(a) || !instruction.takes(b) || (a != b && !bytes)) return false;
  if (instruction.arch != target.arch) return false;
  if (target.arch == Arch::kNone) {
    const bool mixes = signs_of(a, b) == Signs::kMixed && instruction.mixed_since > 0;
    if (mixes && target.features.find(lacking(instruction.mixed_since)) != std::string::npos)
      return false;
    return target.gpu.capability >= instruction.since && target.gpu.capability <= instruction.until;
  }
  const auto needs = instruction.needs[static_cast<std::size_t>(signs_of(a, b))];
  return needs && target.*needs;
}

const MatrixInstruction* find_matrix(const Target& target, std::string_view name, DType a,
                                     DType b) {
  for (const MatrixInstruction& row : kRows) {
    if (row.name == name && offers(target, row, a, b)) return &row;
  }
  return nullptr;
}

const MatrixInstruction* find_matrix(const Target& target, Operands operands, DType a, DType b) {
  for (const MatrixInstruction& row : kRows) {
    if (row.operands == operands && offers(target, row, a, b)) return &row;
  }
  return nullptr;
}

const MatrixInstruction* find_matrix(std::string_view name,
                                     std::span<const MatrixInstruction> rows) {
  for (const MatrixInstruction& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const MatrixInstruction* find_warp_matrix(std::string_view name) {
  const MatrixInstruction* row = find_matrix(name);
  return row && row->threads > 1 ? row : nullptr;
}

}  // namespace tessera::target
