// What a machine is: kind, instruction set, vector width, cores, caches and the limits of GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/machine/target/kind_table.h"
#include "tessera/machine/target/rates.h"
#include "tessera/support/dtype.h"
#include "tessera/support/result.h"

namespace tessera::target {

// Limits of a GPU. What CUDA calls a multiprocessor (SM) is a compute unit of OpenCL and one of
// Target::cores; a thread is a work-item, a block a work-group, shared memory local memory.
struct GpuLimits {
  int capability = 0;  // compute capability, 90 is 9.0; 0 where the device has none
  int warp = 32;       // threads that run in step
  int block_threads = 0, core_threads = 0;  // most threads of a block, and resident on a core
  int core_blocks = 0;                      // most blocks resident on a core
  int core_registers = 0;                   // 32-bit registers of a core
  std::int64_t block_shared_bytes = 0, core_shared_bytes = 0;
  int core_lanes = 0;      // f32 multiply-adds that a core starts in a cycle
  int clock_mhz = 0;       // under load
  int bandwidth_gb_s = 0;  // of the device's memory
};

// What a user allows code to round beyond the types that it computes in (fast_math.h).
enum class FastMath : std::uint8_t {
  kNone,
  kTf32,    // products of f32 on tensor cores, which round their operands to 10 bits of fraction
  kBf16x6,  // products of f32 on tensor cores from three parts in bf16: about as exact as f32
};

// Facts the compiler decides by. Two targets with equal text produce equal code of a schedule.
struct Target {
  std::string name;  // row of the machine table or "host"
  Kind kind = Kind::kCpu;
  Arch arch = Arch::kX86_64;
  std::string triple;     // for LLVM, e.g. "aarch64-unknown-linux-gnu"
  std::string cpu;        // LLVM CPU name used for scheduling, e.g. "neoverse-v1"
  std::string features;   // LLVM feature string; what the machine lacks is listed with '-', e.g.
                          // "+bf16,-sve"
  int vector_bytes = 16;  // width of one vector register used for code; of GPUs: the widest access
  int vector_registers = 32;  // of GPUs: 32-bit registers of one thread
  bool has_fma = true;
  bool has_f16 = false;         // f16 arithmetic
  bool has_bf16_dot = false;    // bfdot / vdpbf16ps
  bool has_bf16_mma = false;    // bfmmla
  bool has_i8_dot = false;      // sdot/udot / vnni
  bool has_i8_mma = false;      // smmla
  bool has_bf16_tiles = false;  // tile registers: tdpbf16ps
  bool has_i8_tiles = false;    // ... and tdpbssd with its variants for signs
  int cores = 1;                // of GPUs: multiprocessors
  int threads = 0;              // that the code shares its work among; 0: one for each core
  // Data caches; l1 and l2 per core. The l2 of a GPU serves all its cores.
  std::int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;
  int line_bytes = 64;
  GpuLimits gpu;                         // of GPUs only
  FastMath fast_math = FastMath::kNone;  // allowed by the user, not a fact of the machine
  // What estimates of cost are made of. Not in the text: code follows from the schedule, which
  // follows from them.
  Rates rates;

  int code_threads() const { return threads > 0 ? threads : cores; }
  const KindRow& row() const { return row_of(kind); }
  bool is_gpu() const { return row().launches; }
};

// The machine this program runs on: features from the kernel (HWCAP / cpuid), not from the CPU's
// name.
const Target& host();

// "host", or a row of the machine table ("neoverse-v1", "skylake-avx512", "h200", ...). The error
// lists the rows.
Result<Target> find_target(std::string_view name);
std::vector<std::string> target_names();

// The machine as code of `threads` threads sees it: it shares its work among as many. Spaces,
// default schedules and records are made for that; a plan names the machine.
Target code_target(Target machine, int threads);

// True if code for `t` runs on this machine: same architecture and every feature present.
bool runs_on_host(const Target& t);

std::string to_text(const Target& t);  // one line: all fields that influence code, not the rates
// Reads it back, on whatever machine, with the shipped rates. kInvalidArgument names what is
// missing or no number.
Result<Target> target_from_text(std::string_view line);

// Floating-point operations of a core in the time in which it reads a byte from memory, roughly.
double flops_per_byte(const Target& t);

inline std::string to_text(Kind kind) { return std::string(row_of(kind).name); }

}  // namespace tessera::target
