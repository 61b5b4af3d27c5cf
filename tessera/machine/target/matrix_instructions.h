// Products of small matrices that a machine computes as one instruction: one row for each.
// Schedules name them, lowering matches loops with them, back ends emit them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/machine/target/target.h"

namespace tessera::target {

// Where the operands of an instruction lie.
enum class Operands : std::uint8_t {
  kLanes,    // each lane of a vector has a sum of its own and k elements of both operands beside it
  kVectors,  // one vector register holds a whole operand
  kFragments,      // the threads of a warp hold parts of the operands (ir::Intrinsic::kMma)
  kTiles,          // tiles of shared memory, which a warp group names
  kTileRegisters,  // registers that hold up to m rows of 64 bytes; the right operand has its k
                   // elements of a column in groups of 4 bytes (ir::Intrinsic::kTileDot)
};

// Operands of different signs are different instructions; floats are signed.
enum class Signs : std::uint8_t { kSigned, kUnsigned, kMixed };

// sums[i][j] += a[i][0] * b[0][j] + ... + a[i][k - 1] * b[k - 1][j]  for i < m, j < n.
struct MatrixInstruction {
  std::string_view name;  // in schedules; rows of one name compute the same on different machines
  Operands operands;
  int threads;                 // that compute it together
  int m, n, k;                 // of the loops that it replaces; 0: any number (kLanes, n of kTiles)
  std::array<DType, 2> types;  // of elements that it takes
  DType sums;

  // Who has it: CPUs of an architecture by what they can do, by Signs (null: nobody); GPUs by their
  // compute capability.
  Arch arch = Arch::kNone;
  std::array<bool Target::*, 3> needs{};
  int since = 0, until = 0;

  // How it is emitted: CPUs by LLVM's intrinsics, by Signs, with {} for the bits of a vector of at
  // least `least_bytes`, or for the letters of both signs (kTileRegisters); GPUs by the opcode in
  // their assembly language, with {} for the columns, if any number of them is possible, and the
  // types of both operands. `unit_n`, `unit_k`: columns and depth of one opcode; an instruction of
  // schedules may take several.
  std::array<std::string_view, 3> emit{};
  int least_bytes = 0;
  int unit_n = 0, unit_k = 0;
  // GPUs: version of their assembly language, times ten, since which both signs may meet; 0:
  // always.
  int mixed_since = 0;

  // Elements of a sum that lie side by side in the right operand.
  int group() const { return operands == Operands::kTileRegisters ? 4 / size_bytes(types[0]) : k; }
  bool takes(DType type) const { return type == types[0] || type == types[1]; }
};

Signs signs_of(DType a, DType b);

// What is appended to the features of a GPU whose driver knows its assembly language up to a
// version, times ten, for what the rows need beyond it.
std::string lacking_features(int version);

std::span<const MatrixInstruction> matrix_instructions();
// Whether the target has the instruction for elements of these types.
bool offers(const Target& target, const MatrixInstruction& instruction, DType a, DType b);
// The row for the target and the types; null: it has none. With `name`, of that name only.
const MatrixInstruction* find_matrix(const Target& target, std::string_view name, DType a, DType b);
const MatrixInstruction* find_matrix(const Target& target, Operands operands, DType a, DType b);

// What the name means, on whatever machine; null: no row has it.
const MatrixInstruction* find_matrix(
    std::string_view name, std::span<const MatrixInstruction> rows = matrix_instructions());
// The same of instructions that several threads compute together.
const MatrixInstruction* find_warp_matrix(std::string_view name);

}  // namespace tessera::target
