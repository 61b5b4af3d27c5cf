// What follows from the kind of a machine and from the architecture of a CPU: one row for each.
// Other folders ask for the property that they need, not for the kind.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tessera::target {

enum class Kind : std::uint8_t { kCpu, kCuda, kOpenCl };
enum class Arch : std::uint8_t { kX86_64, kAArch64, kNone };  // kNone: not a CPU

struct KindRow {
  Kind kind;
  std::string_view name;    // in targets, artifacts and names of weights
  std::string_view triple;  // LLVM's; empty: that of the architecture
  // Code is kernels that a driver launches on a device with memory of its own. Otherwise it is
  // functions of this process, whose loops a pool of threads shares.
  bool launches;
  int warp;                          // threads that run in step, unless a machine says otherwise
  std::array<std::int64_t, 3> grid;  // most blocks of a launch
  bool has_libm;                     // code may call the functions of <math.h>

  std::string_view code;                  // what the back end makes, in the words of artifacts
  std::string_view assembler, assembled;  // program that assembles it ahead, and what that makes
  bool driver_compiles;                   // the first launch compiles source code

  std::string_view link_flag;  // what libraries of artifacts need besides the C library
  int dlpack, dlpack_managed;  // DLPack's device types; managed: memory that both sides reach
};

struct ArchRow {
  Arch arch;
  std::string_view name;         // first word of its triples
  std::string_view triple;       // Linux with the GNU C library
  std::string_view generic_cpu;  // what LLVM calls any processor of it
  std::string_view debian;       // of its packages in Debian and Ubuntu
  // Of ELF files: e_machine, and the relocation that stores an address of 64 bits.
  std::uint16_t elf_machine;
  std::uint32_t elf_address;
};

std::span<const KindRow> kinds();
const KindRow& row_of(Kind kind);
std::optional<Kind> kind_from_text(std::string_view name);

std::span<const ArchRow> archs();  // of CPUs
const ArchRow& row_of(Arch arch);  // not of kNone

}  // namespace tessera::target
