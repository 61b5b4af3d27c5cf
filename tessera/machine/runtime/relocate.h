// The relocations that compiled code uses, by architecture. No instruction of the host is involved:
// code for either is relocated on both.
#pragma once

#include <cstdint>

#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"

namespace tessera::runtime {

// Where a relocation gets its value from.
enum class RelocationBase : std::uint8_t {
  kSymbol,
  kCall,  // the symbol, or a stub that jumps to it when it is too far
  kSlot,  // a slot that holds the address of the symbol
};

struct Relocation {
  std::uint32_t type = 0;   // of the ELF architecture
  std::uint64_t place = 0;  // address of the field
  std::uint64_t value = 0;  // address of the symbol, its stub or its slot, by relocation_base
  std::int64_t addend = 0;
};

// kBuildFailed: of an unknown kind.
Result<RelocationBase> relocation_base(target::Arch arch, std::uint32_t type);
// Bytes of the field.
std::uint64_t relocation_bytes(target::Arch arch, std::uint32_t type);
// Writes the field at `at`, which will be at address `place`. kBuildFailed: the value does not fit.
Result<void> relocate(target::Arch arch, const Relocation& relocation, std::uint8_t* at);

// A stub: code that jumps to the address in the 8 bytes at its end.
inline constexpr std::uint64_t kStubBytes = 16;
void write_stub(target::Arch arch, std::uint64_t target, std::uint8_t* at);

}  // namespace tessera::runtime
