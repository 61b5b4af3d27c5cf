// AMX instructions in machine code.
#pragma once

#include <cstdint>
#include <optional>

#include "tests/amx_trap/tiles.h"

namespace tessera::testing {

enum class TileOp : std::uint8_t {
  kLoadConfig,
  kStoreConfig,
  kRelease,
  kZero,
  kLoad,
  kStore,
  kDot,
};

struct TileInstruction {
  TileOp op = TileOp::kRelease;
  Dot dot = Dot::kBSSD;
  int tile = 0, a = 0, b = 0;  // `a` and `b` of dots
  std::uint64_t address = 0;   // with the displacement
  std::int64_t stride = 0;     // bytes from row to row
  int length = 0;              // of the instruction
};

// What an address is made of when the instruction is executed.
struct Registers {
  std::uint64_t general[16];  // rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15
  std::uint64_t fs, gs;       // bases of the segments
};

// The instruction at `code`, which is also its address; nothing if it is not one of AMX. Reads no
// byte after its end. With a lock prefix all of them raise SIGILL on every processor: so a test
// brings about those that a processor with AMX would execute.
std::optional<TileInstruction> decode_tile_instruction(const std::uint8_t* code,
                                                       const Registers& registers);

}  // namespace tessera::testing
