// AArch64 on Linux: features from the auxiliary vector, the model from MIDR_EL1.
#if defined(__aarch64__)
#include <array>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <sys/auxv.h>

#include "tessera/machine/target/host_cpu.h"

namespace tessera::target {
namespace {

// Bits of AT_HWCAP and AT_HWCAP2 (Linux: arch/arm64/include/uapi/asm/hwcap.h, a stable interface).
// Spelled out because the C library's headers may be older than the kernel.
struct HwcapBit {
  std::string_view feature;
  unsigned long auxv_type;
  int bit;
};

constexpr std::array<HwcapBit, 19> kHwcapBits = {{
    {"fp-armv8", AT_HWCAP, 0},   {"neon", AT_HWCAP, 1},   {"aes", AT_HWCAP, 3},
    {"sha2", AT_HWCAP, 6},       {"crc", AT_HWCAP, 7},    {"lse", AT_HWCAP, 8},
    {"fullfp16", AT_HWCAP, 10},  {"rdm", AT_HWCAP, 12},   {"jsconv", AT_HWCAP, 13},
    {"complxnum", AT_HWCAP, 14}, {"rcpc", AT_HWCAP, 15},  {"sha3", AT_HWCAP, 17},
    {"dotprod", AT_HWCAP, 20},   {"sve", AT_HWCAP, 22},   {"fp16fml", AT_HWCAP, 23},
    {"sve2", AT_HWCAP2, 1},      {"i8mm", AT_HWCAP2, 13}, {"bf16", AT_HWCAP2, 14},
    {"sme", AT_HWCAP2, 23},
}};

// From sysfs, else from the "CPU implementer" and "CPU part" lines of /proc/cpuinfo; 0 if neither
// tells.
unsigned long read_midr(int cpu) {
  std::ifstream sysfs(
      fmt::format("/sys/devices/system/cpu/cpu{}/regs/identification/midr_el1", cpu));
  std::string word;
  if (sysfs >> word) return std::strtoul(word.c_str(), nullptr, 16);
  std::ifstream cpuinfo("/proc/cpuinfo");
  unsigned long implementer = 0;
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const unsigned long value = std::strtoul(line.c_str() + colon + 2, nullptr, 0);
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) return implementer << 24 | value << 4;
  }
  return 0;
}

}  // namespace

HostCpu detect_host_cpu(int cpu) {
  HostCpu host{
      .arch = Arch::kAArch64, .cpu = std::string(aarch64_cpu_name(read_midr(cpu))), .features = {}};
  for (const HwcapBit& b : kHwcapBits) {
    if ((getauxval(b.auxv_type) >> b.bit & 1) != 0) host.features.push_back(b.feature);
  }
  return host;
}

}  // namespace tessera::target
#endif
