#include "tessera/machine/runtime/relocate.h"

#include <cstring>

#include <elf.h>

namespace tessera::runtime {
namespace {

using target::Arch;

Error unknown(std::uint32_t type) {
  return make_error(ErrorCode::kBuildFailed, "object code: relocation {} is not known", type);
}

Result<void> put_signed(std::int64_t value, int bits, std::uint8_t* at) {
  if (bits < 64 &&
      (value >= std::int64_t{1} << (bits - 1) || value < -(std::int64_t{1} << (bits - 1)))) {
    return make_error(ErrorCode::kBuildFailed, "object code: a relocation is out of reach");
  }
  std::memcpy(at, &value, static_cast<std::size_t>(bits / 8));
  return {};
}

// Replaces `count` bits of the instruction from bit `low` on.
void put_bits(std::uint64_t value, int low, int count, std::uint8_t* at) {
  std::uint32_t instruction = 0;
  std::memcpy(&instruction, at, sizeof(instruction));
  const std::uint32_t mask = ((std::uint32_t{1} << count) - 1) << low;
  instruction = (instruction & ~mask) | ((static_cast<std::uint32_t>(value) << low) & mask);
  std::memcpy(at, &instruction, sizeof(instruction));
}

// An ADR or ADRP: 21 bits in two parts.
Result<void> put_adr(std::int64_t value, std::uint8_t* at) {
  constexpr std::int64_t kReach = std::int64_t{1} << 20;
  if (value >= kReach || value < -kReach) {
    return make_error(ErrorCode::kBuildFailed, "object code: a relocation is out of reach");
  }
  const auto bits = static_cast<std::uint64_t>(value);
  put_bits(bits & 3, 29, 2, at);
  put_bits(bits >> 2, 5, 19, at);
  return {};
}

Result<void> put_branch(std::int64_t distance, std::uint8_t* at) {
  constexpr std::int64_t kReach = std::int64_t{1} << 27;
  if (distance >= kReach || distance < -kReach || distance % 4 != 0) {
    return make_error(ErrorCode::kBuildFailed, "object code: a call is out of reach");
  }
  put_bits(static_cast<std::uint64_t>(distance) >> 2, 0, 26, at);
  return {};
}

// Offset within a page of an access to `1 << log2_size` bytes.
Result<void> put_page_offset(std::uint64_t address, int log2_size, std::uint8_t* at) {
  const std::uint64_t offset = address & 0xfff;
  if (offset % (std::uint64_t{1} << log2_size) != 0) {
    return make_error(ErrorCode::kBuildFailed, "object code: a relocation is not aligned");
  }
  put_bits(offset >> log2_size, 10, 12, at);
  return {};
}

Result<void> relocate_x86_64(const Relocation& r, std::uint8_t* at) {
  const auto absolute = static_cast<std::int64_t>(r.value) + r.addend;
  const std::int64_t relative = absolute - static_cast<std::int64_t>(r.place);
  switch (r.type) {
    case R_X86_64_64:
      return put_signed(absolute, 64, at);
    case R_X86_64_PC64:
      return put_signed(relative, 64, at);
    default:
      return put_signed(relative, 32, at);
  }
}

Result<void> relocate_aarch64(const Relocation& r, std::uint8_t* at) {
  const std::uint64_t absolute = r.value + static_cast<std::uint64_t>(r.addend);
  const auto relative = static_cast<std::int64_t>(absolute - r.place);
  const auto pages = static_cast<std::int64_t>((absolute & ~std::uint64_t{0xfff}) -
                                               (r.place & ~std::uint64_t{0xfff})) /
                     4096;
  switch (r.type) {
    case R_AARCH64_ABS64:
      return put_signed(static_cast<std::int64_t>(absolute), 64, at);
    case R_AARCH64_PREL64:
      return put_signed(relative, 64, at);
    case R_AARCH64_PREL32:
      return put_signed(relative, 32, at);
    case R_AARCH64_ADR_PREL_LO21:
      return put_adr(relative, at);
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_PREL_PG_HI21_NC:
    case R_AARCH64_ADR_GOT_PAGE:
      return put_adr(pages, at);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      return put_branch(relative, at);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
      return put_page_offset(absolute, 0, at);
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return put_page_offset(absolute, 1, at);
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return put_page_offset(absolute, 2, at);
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return put_page_offset(absolute, 4, at);
    default:  // R_AARCH64_LDST64_ABS_LO12_NC, R_AARCH64_LD64_GOT_LO12_NC
      return put_page_offset(absolute, 3, at);
  }
}

Result<RelocationBase> base_x86_64(std::uint32_t type) {
  switch (type) {
    case R_X86_64_64:
    case R_X86_64_PC64:
    case R_X86_64_PC32:
      return RelocationBase::kSymbol;
    case R_X86_64_PLT32:
      return RelocationBase::kCall;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      return RelocationBase::kSlot;
    default:
      return unknown(type);
  }
}

Result<RelocationBase> base_aarch64(std::uint32_t type) {
  switch (type) {
    case R_AARCH64_ABS64:
    case R_AARCH64_PREL64:
    case R_AARCH64_PREL32:
    case R_AARCH64_ADR_PREL_LO21:
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_PREL_PG_HI21_NC:
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return RelocationBase::kSymbol;
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      return RelocationBase::kCall;
    case R_AARCH64_ADR_GOT_PAGE:
    case R_AARCH64_LD64_GOT_LO12_NC:
      return RelocationBase::kSlot;
    default:
      return unknown(type);
  }
}

}  // namespace

Result<RelocationBase> relocation_base(Arch arch, std::uint32_t type) {
  return arch == Arch::kX86_64 ? base_x86_64(type) : base_aarch64(type);
}

std::uint64_t relocation_bytes(Arch arch, std::uint32_t type) {
  if (arch == Arch::kX86_64) return type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
  return type == R_AARCH64_ABS64 || type == R_AARCH64_PREL64 ? 8 : 4;
}

Result<void> relocate(Arch arch, const Relocation& relocation, std::uint8_t* at) {
  return arch == Arch::kX86_64 ? relocate_x86_64(relocation, at) : relocate_aarch64(relocation, at);
}

void write_stub(Arch arch, std::uint64_t target, std::uint8_t* at) {
  constexpr std::uint8_t kX86[8] = {0xff, 0x25, 0x02, 0, 0, 0, 0xcc, 0xcc};  // jmp *[rip + 2]
  constexpr std::uint32_t kAArch64[2] = {0x58000050,                         // ldr x16, [pc + 8]
                                         0xd61f0200};                        // br x16
  if (arch == Arch::kX86_64) {
    std::memcpy(at, kX86, sizeof(kX86));
  } else {
    std::memcpy(at, kAArch64, sizeof(kAArch64));
  }
  std::memcpy(at + 8, &target, sizeof(target));
}

}  // namespace tessera::runtime
