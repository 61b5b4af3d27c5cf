// Machines that code can be generated for without being on one.
#pragma once

#include <span>
#include <string_view>

#include "tessera/machine/target/target.h"

namespace tessera::target {

struct Machine {
  std::string_view name;
  Arch arch;
  std::string_view cpu;    // LLVM name
  std::string_view base;   // "fma,avx2": features of the architecture level, among known_features
  std::string_view extra;  // features beyond it; whatever is in neither is switched off
  int cores;
  std::int64_t l1_bytes, l2_bytes, l3_bytes;  // data; l1 and l2 per core
  int line_bytes;
};

// What all GPUs of one generation have in common.
struct GpuGeneration {
  int capability;
  std::string_view cpu, features;  // LLVM names; the oldest PTX version that knows the cpu
  int core_threads, core_blocks;
  std::int64_t block_shared_bytes, core_shared_bytes, l1_bytes;
  int core_lanes;
  int warp = 0;  // 0: that of the kind
};

struct GpuMachine {
  std::string_view name;
  Kind kind;
  GpuGeneration generation;
  int cores;
  std::int64_t l2_bytes;
  int clock_mhz, bandwidth_gb_s;
  int block_threads;
};

struct Alias {
  std::string_view name, machine;
};

std::span<const Machine> machines();
std::span<const GpuMachine> gpu_machines();
std::span<const Alias> aliases();

Target make_target(const Machine& machine);
Target make_target(const GpuMachine& machine);

// The generation of a compute capability: the newest that is not newer.
const GpuGeneration& gpu_generation(int capability);

}  // namespace tessera::target
