#include "tessera/target/machine_table.h"

#include <algorithm>
#include <array>

#include "tessera/target/features.h"

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
    Machine{"sapphirerapids", Arch::kX86_64, "sapphirerapids", kX86V4,
            "avx512vbmi,avx512vnni,avx512bf16,avx512fp16,avxvnni,gfni,vaes", 48, 48 * kKiB,
            2 * kMiB, 105 * kMiB, 64},
    // EPYC 7763: 64 cores, 32 KiB L1d, 512 KiB L2, 32 MiB L3 for each group of 8 cores.
    Machine{"znver3", Arch::kX86_64, "znver3", kX86V3, "vaes", 64, 32 * kKiB, 512 * kKiB, 32 * kMiB,
            64},
    // EPYC 9654: 96 cores, 32 KiB L1d, 1 MiB L2, 32 MiB L3 for each group of 8 cores.
    Machine{"znver4", Arch::kX86_64, "znver4", kX86V4, "avx512vbmi,avx512vnni,avx512bf16,gfni,vaes",
            96, 32 * kKiB, kMiB, 32 * kMiB, 64},
};

constexpr std::array kAliases = {
    Alias{"graviton2", "neoverse-n1"},
    Alias{"graviton3", "neoverse-v1"},
    Alias{"graviton4", "neoverse-v2"},
};

}  // namespace

std::span<const Machine> machines() { return kMachines; }
std::span<const Alias> aliases() { return kAliases; }

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
  t.triple = default_triple(machine.arch);
  t.cpu = machine.cpu;
  t.features = feature_string(machine.arch, present);
  derive_from_features(t);
  t.cores = machine.cores;
  t.l1_bytes = machine.l1_bytes;
  t.l2_bytes = machine.l2_bytes;
  t.l3_bytes = machine.l3_bytes;
  t.line_bytes = machine.line_bytes;
  return t;
}

}  // namespace tessera::target
