// Random programs of AMX instructions, as a list of steps and as machine code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/support/rng.h"
#include "tests/amx_trap/decode.h"

namespace tessera::testing {

// Memory of a program: what it may read and write, then a copy of the configuration and every
// tile. Programs also have kStackBytes at the stack pointer, zero in the beginning.
constexpr std::int64_t kDataBytes = 24 << 10, kStackBytes = 4 << 10;
constexpr std::int64_t kMemoryBytes = kDataBytes + 64 + kTiles * kTileRows * kTileRowBytes;

// How an instruction names its memory. Registers by their number in machine code.
struct AddressForm {
  enum class Base { kRegister, kStack, kNone, kInstruction } base = Base::kRegister;
  int base_register = 0;
  int index_register = -1, scale = 0;
  int displacement_bytes = 0;  // 0, 1 or 4
  std::int32_t displacement = 0;
  bool fs = false;  // relative to the block of the thread
};

struct TileStep {
  TileOp op = TileOp::kRelease;
  Dot dot = Dot::kBSSD;
  int tile = 0, a = 0, b = 0;
  bool on_stack = false;    // else in the memory
  std::int64_t offset = 0;  // of row 0
  std::int64_t stride = 0;
  bool streamed = false;  // tileloaddt1
  TileConfig config = {};
  AddressForm form = {};
};

struct TileProgram {
  std::vector<TileStep> steps;
  std::vector<std::uint8_t> memory;  // in the beginning
};

// Without dots of f16, which few processors have, unless told otherwise.
TileProgram random_tile_program(std::uint64_t seed, bool f16);

// The step and its form, for messages.
std::string to_text(const TileStep& step);

// Machine code of a function without arguments; `memory` lies below 2 GiB. Locked: every
// instruction raises SIGILL.
std::vector<std::uint8_t> assemble(const TileProgram& program, std::uint8_t* memory, bool locked);

// Executable memory, below 2 GiB, or the memory of a program.
std::uint8_t* map_low(std::size_t bytes, bool executable);

}  // namespace tessera::testing
