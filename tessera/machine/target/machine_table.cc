#include "tessera/machine/target/machine_table.h"

#include <algorithm>
#include <array>

#include "tessera/machine/target/features.h"

namespace tessera::target {
namespace {

constexpr std::int64_t kKiB = 1 << 10;
constexpr std::int64_t kMiB = 1 << 20;

// SVE is left out of every row: code uses NEON registers, and then also runs where a hypervisor
// hides SVE.
constexpr std::string_view kArmV8 = "fp-armv8,neon";
constexpr std::string_view kArmV82 = "fp-armv8,neon,crc,aes,sha2,lse,rdm,rcpc,fullfp16,dotprod";
constexpr std::string_view kArmV84 =
    "fp-armv8,neon,crc,aes,sha2,lse,rdm,rcpc,jsconv,complxnum,fullfp16,dotprod,fp16fml,sha3";
constexpr std::string_view kX86V3 =
    "sse3,ssse3,sse4.1,sse4.2,popcnt,avx,f16c,fma,avx2,bmi,bmi2,lzcnt,movbe";
constexpr std::string_view kX86V4 =
    "sse3,ssse3,sse4.1,sse4.2,popcnt,avx,f16c,fma,avx2,bmi,bmi2,lzcnt,movbe,"
    "avx512f,avx512cd,avx512bw,avx512dq,avx512vl";

constexpr std::array kMachines = {
    // Architecture baseline; sizes are those of a small core, so that tiles fit anywhere.
    Machine{"armv8-a", Arch::kAArch64, "generic", kArmV8, "", 4, 32 * kKiB, 256 * kKiB, 0, 64},
    // Raspberry Pi 4 (BCM2711): 4 cores, 32 KiB L1d, 1 MiB L2 shared by the 4; no crypto extension.
    Machine{"cortex-a72", Arch::kAArch64, "cortex-a72", kArmV8, "crc", 4, 32 * kKiB, 256 * kKiB, 0,
            64},
    // Raspberry Pi 5 (BCM2712): 4 cores, 64 KiB L1d, 512 KiB L2 each, 2 MiB L3.
    Machine{"cortex-a76", Arch::kAArch64, "cortex-a76", kArmV82, "", 4, 64 * kKiB, 512 * kKiB,
            2 * kMiB, 64},
    // AWS Graviton2: 64 cores, 64 KiB L1d, 1 MiB L2 each, 32 MiB L3.
    Machine{"neoverse-n1", Arch::kAArch64, "neoverse-n1", kArmV82, "", 64, 64 * kKiB, kMiB,
            32 * kMiB, 64},
    // AWS Graviton3: 64 cores, 64 KiB L1d, 1 MiB L2 each, 32 MiB L3.
    Machine{"neoverse-v1", Arch::kAArch64, "neoverse-v1", kArmV84, "bf16,i8mm", 64, 64 * kKiB, kMiB,
            32 * kMiB, 64},
    // AWS Graviton4: 96 cores, 64 KiB L1d, 2 MiB L2 each, 36 MiB L3.
    Machine{"neoverse-v2", Arch::kAArch64, "neoverse-v2", kArmV84, "bf16,i8mm", 96, 64 * kKiB,
            2 * kMiB, 36 * kMiB, 64},
    // Alibaba Yitian 710: 128 cores, 64 KiB L1d, 1 MiB L2 each, 64 MiB L3.
    Machine{"neoverse-n2", Arch::kAArch64, "neoverse-n2", kArmV84, "bf16,i8mm", 128, 64 * kKiB,
            kMiB, 64 * kMiB, 64},
    // Apple M1: 4 performance cores, 128 KiB L1d, 12 MiB L2 shared by the 4, 8 MiB system cache,
    // 128-byte lines.
    Machine{"apple-m1", Arch::kAArch64, "apple-m1", kArmV84, "", 4, 128 * kKiB, 3 * kMiB, 8 * kMiB,
            128},

    // x86-64 psABI level 3; cache sizes of the smallest such desktop parts (Haswell).
    Machine{"x86-64-v3", Arch::kX86_64, "x86-64-v3", kX86V3, "", 4, 32 * kKiB, 256 * kKiB, 8 * kMiB,
            64},
    // x86-64 psABI level 4; cache sizes of the first such servers (Skylake-SP), rounded down.
    Machine{"x86-64-v4", Arch::kX86_64, "x86-64-v4", kX86V4, "", 8, 32 * kKiB, kMiB, 8 * kMiB, 64},
    // Core i7-4770: 4 cores, 32 KiB L1d, 256 KiB L2, 8 MiB L3.
    Machine{"haswell", Arch::kX86_64, "haswell", kX86V3, "", 4, 32 * kKiB, 256 * kKiB, 8 * kMiB,
            64},
    // Xeon Platinum 8175M: 24 cores, 32 KiB L1d, 1 MiB L2, 33 MiB L3.
    Machine{"skylake-avx512", Arch::kX86_64, "skylake-avx512", kX86V4, "", 24, 32 * kKiB, kMiB,
            33 * kMiB, 64},
    // Xeon Platinum 8375C: 32 cores, 48 KiB L1d, 1.25 MiB L2, 54 MiB L3.
    Machine{"icelake-server", Arch::kX86_64, "icelake-server", kX86V4,
            "avx512vbmi,avx512vnni,gfni,vaes", 32, 48 * kKiB, 1280 * kKiB, 54 * kMiB, 64},
    // Xeon Platinum 8488C: 48 cores, 48 KiB L1d, 2 MiB L2, 105 MiB L3.
    Machine{
        "sapphirerapids", Arch::kX86_64, "sapphirerapids", kX86V4,
        "avx512vbmi,avx512vnni,avx512bf16,avx512fp16,avxvnni,gfni,vaes,amx-tile,amx-bf16,amx-int8",
        48, 48 * kKiB, 2 * kMiB, 105 * kMiB, 64},
    // EPYC 7763: 64 cores, 32 KiB L1d, 512 KiB L2, 32 MiB L3 for each group of 8 cores.
    Machine{"znver3", Arch::kX86_64, "znver3", kX86V3, "vaes", 64, 32 * kKiB, 512 * kKiB, 32 * kMiB,
            64},
    // EPYC 9654: 96 cores, 32 KiB L1d, 1 MiB L2, 32 MiB L3 for each group of 8 cores.
    Machine{"znver4", Arch::kX86_64, "znver4", kX86V4, "avx512vbmi,avx512vnni,avx512bf16,gfni,vaes",
            96, 32 * kKiB, kMiB, 32 * kMiB, 64},
    // EPYC 9755: 128 cores, 48 KiB L1d, 1 MiB L2, 32 MiB L3 for each group of 8 cores. LLVM before
    // 19 has no name for it; the scheduling model of Zen 4 differs little.
    Machine{"znver5", Arch::kX86_64, "znver4", kX86V4,
            "avx512vbmi,avx512vnni,avx512bf16,avxvnni,gfni,vaes", 128, 48 * kKiB, kMiB, 32 * kMiB,
            64},
};

// "Technical specifications per compute capability" of the CUDA C++ Programming Guide; lanes and
// the L1, which shared memory is cut from, of the whitepapers of each architecture.
constexpr GpuGeneration kVolta = {70,        "sm_70",   "+ptx63",   2048, 32,
                                  96 * kKiB, 96 * kKiB, 128 * kKiB, 64};
constexpr GpuGeneration kTuring = {75,        "sm_75",   "+ptx63",  1024, 16,
                                   64 * kKiB, 64 * kKiB, 96 * kKiB, 64};
constexpr GpuGeneration kA100 = {80,         "sm_80",    "+ptx70",   2048, 32,
                                 163 * kKiB, 164 * kKiB, 192 * kKiB, 64};
constexpr GpuGeneration kAmpere = {86,        "sm_86",    "+ptx71",   1536, 16,
                                   99 * kKiB, 100 * kKiB, 128 * kKiB, 128};
constexpr GpuGeneration kAda = {89,        "sm_89",    "+ptx78",   1536, 24,
                                99 * kKiB, 100 * kKiB, 128 * kKiB, 128};
constexpr GpuGeneration kHopper = {90,         "sm_90a",   "+ptx80",   2048, 32,
                                   227 * kKiB, 228 * kKiB, 256 * kKiB, 128};
constexpr std::array kGenerations = {kVolta, kTuring, kA100, kAmpere, kAda, kHopper};

constexpr std::array kGpus = {
    // V100 SXM2, datasheet and whitepaper: 80 SMs, 6 MiB L2, 1530 MHz boost, 900 GB/s.
    GpuMachine{"v100", Kind::kCuda, kVolta, 80, 6 * kMiB, 1530, 900, 1024},
    // T4 datasheet: 40 SMs, 4 MiB L2, 1590 MHz boost, 320 GB/s.
    GpuMachine{"t4", Kind::kCuda, kTuring, 40, 4 * kMiB, 1590, 320, 1024},
    // A100 SXM4 80 GB, datasheet and whitepaper: 108 SMs, 40 MiB L2, 1410 MHz, 2039 GB/s.
    GpuMachine{"a100", Kind::kCuda, kA100, 108, 40 * kMiB, 1410, 2039, 1024},
    // GeForce RTX 3090, GA102 whitepaper: 82 SMs, 6 MiB L2, 1695 MHz boost, 936 GB/s.
    GpuMachine{"rtx3090", Kind::kCuda, kAmpere, 82, 6 * kMiB, 1695, 936, 1024},
    // GeForce RTX 4090, Ada whitepaper: 128 SMs, 72 MiB L2, 2520 MHz boost, 1008 GB/s.
    GpuMachine{"rtx4090", Kind::kCuda, kAda, 128, 72 * kMiB, 2520, 1008, 1024},
    // L4 datasheet and Ada whitepaper: 58 SMs, 48 MiB L2, 2040 MHz boost, 300 GB/s.
    GpuMachine{"l4", Kind::kCuda, kAda, 58, 48 * kMiB, 2040, 300, 1024},
    // L40S datasheet and Ada whitepaper: 142 SMs, 96 MiB L2, 2520 MHz boost, 864 GB/s.
    GpuMachine{"l40s", Kind::kCuda, kAda, 142, 96 * kMiB, 2520, 864, 1024},
    // H100 SXM5, datasheet and whitepaper: 132 SMs, 50 MiB L2, 1980 MHz, 3350 GB/s.
    GpuMachine{"h100", Kind::kCuda, kHopper, 132, 50 * kMiB, 1980, 3350, 1024},
    // H200 SXM, datasheet: 4800 GB/s; the driver says 132 SMs, 60 MiB L2, 1980 MHz.
    GpuMachine{"h200", Kind::kCuda, kHopper, 132, 60 * kMiB, 1980, 4800, 1024},
    // Any device of OpenCL 1.2, full profile: its least CL_DEVICE_LOCAL_MEM_SIZE; groups of 256
    // work-items run on all GPUs. The rest is that of a small GPU.
    GpuMachine{"opencl-1.2",
               Kind::kOpenCl,
               {0, "generic", "", 1024, 16, 32 * kKiB, 32 * kKiB, 16 * kKiB, 64},
               8,
               512 * kKiB,
               1000,
               50,
               256},
};

constexpr std::array kAliases = {
    Alias{"graviton2", "neoverse-n1"},
    Alias{"graviton3", "neoverse-v1"},
    Alias{"graviton4", "neoverse-v2"},
};

}  // namespace

std::span<const Machine> machines() { return kMachines; }
std::span<const GpuMachine> gpu_machines() { return kGpus; }
std::span<const Alias> aliases() { return kAliases; }

const GpuGeneration& gpu_generation(int capability) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < kGenerations.size(); ++i) {
    if (kGenerations[i].capability <= capability) found = i;
  }
  return kGenerations[found];
}

Target make_target(const Machine& machine) {
  std::vector<std::string_view> present;
  for (std::string_view rest : {machine.base, machine.extra}) {
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      present.push_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  Target t;
  t.name = machine.name;
  t.arch = machine.arch;
  t.triple = row_of(machine.arch).triple;
  t.cpu = machine.cpu;
  t.features = feature_string(machine.arch, present);
  derive_from_features(t);
  t.cores = machine.cores;
  t.l1_bytes = machine.l1_bytes;
  t.l2_bytes = machine.l2_bytes;
  t.l3_bytes = machine.l3_bytes;
  t.line_bytes = machine.line_bytes;
  t.rates = shipped_rates(t);
  return t;
}

Target make_target(const GpuMachine& machine) {
  const GpuGeneration& generation = machine.generation;
  Target t;
  t.name = machine.name;
  t.kind = machine.kind;
  t.arch = Arch::kNone;
  t.triple = t.row().triple;
  t.cpu = generation.cpu;
  t.features = generation.features;
  derive_from_features(t);
  t.cores = machine.cores;
  t.l1_bytes = generation.l1_bytes;
  t.l2_bytes = machine.l2_bytes;
  t.line_bytes = 128;
  t.gpu.warp = generation.warp > 0 ? generation.warp : t.row().warp;
  t.gpu.block_threads = machine.block_threads;
  t.gpu.core_threads = generation.core_threads;
  t.gpu.core_blocks = generation.core_blocks;
  t.gpu.core_registers = 64 * kKiB;
  t.gpu.block_shared_bytes = generation.block_shared_bytes;
  t.gpu.core_shared_bytes = generation.core_shared_bytes;
  t.gpu.core_lanes = generation.core_lanes;
  t.gpu.clock_mhz = machine.clock_mhz;
  t.gpu.bandwidth_gb_s = machine.bandwidth_gb_s;
  t.rates = shipped_rates(t);
  return t;
}

}  // namespace tessera::target
