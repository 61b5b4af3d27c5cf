// What a machine is: kind, instruction set, vector width, cores and caches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::target {

enum class Arch : std::uint8_t { kX86_64, kAArch64 };

// Facts the compiler decides by. Two targets with equal text produce equal code.
struct Target {
  std::string name;  // row of the machine table or "host"
  Arch arch = Arch::kX86_64;
  std::string triple;     // for LLVM, e.g. "aarch64-unknown-linux-gnu"
  std::string cpu;        // LLVM CPU name used for scheduling, e.g. "neoverse-v1"
  std::string features;   // LLVM feature string; what the machine lacks is listed with '-', e.g.
                          // "+bf16,-sve"
  int vector_bytes = 16;  // width of one vector register used for code
  int vector_registers = 32;
  bool has_fma = true;
  bool has_f16 = false;       // f16 arithmetic
  bool has_bf16_dot = false;  // bfdot / vdpbf16ps
  bool has_bf16_mma = false;  // bfmmla
  bool has_i8_dot = false;    // sdot/udot / vnni
  bool has_i8_mma = false;    // smmla
  int cores = 1;
  std::int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // data caches; l1 and l2 per core
  int line_bytes = 64;
};

// The machine this program runs on: features from the kernel (HWCAP / cpuid), not from the CPU's
// name.
const Target& host();

// "host", or a row of the machine table ("neoverse-v1", "skylake-avx512", ...). The error lists the
// rows.
Result<Target> find_target(std::string_view name);
std::vector<std::string> target_names();

// The machine as code of `threads` threads sees it: it can share its work among as many cores.
// Spaces, default schedules and records are made for that; a plan names the machine.
Target code_target(Target machine, int threads);

// True if code for `t` runs on this machine: same architecture and every feature present.
bool runs_on_host(const Target& t);

std::string to_text(const Target& t);  // one line: all fields that influence code
// Reads it back, on whatever machine. kInvalidArgument names what is missing or no number.
Result<Target> target_from_text(std::string_view line);

// Floating-point operations of a core in the time in which it reads a byte from memory, roughly.
// Wide vectors compute faster; memory is as slow for them as for others.
double flops_per_byte(const Target& t);

std::string default_triple(Arch arch);  // Linux with the GNU C library

}  // namespace tessera::target
