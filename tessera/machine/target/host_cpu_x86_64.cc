// x86-64: features from cpuid, limited to the registers that the operating system saves (XCR0).
#if defined(__x86_64__)
#include <array>
#include <cstring>

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tessera/machine/target/host_cpu.h"

namespace tessera::target {
namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero when the processor does not have the leaf.
Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

enum class Saved { kAlways, kYmm, kZmm, kTiles };  // the register state a feature needs

struct CpuidBit {
  std::string_view feature;
  unsigned leaf, subleaf;
  unsigned Registers::*word;
  int bit;
  Saved needs;
};

// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID.
constexpr std::array<CpuidBit, 28> kCpuidBits = {{
    {"sse3", 1, 0, &Registers::ecx, 0, Saved::kAlways},
    {"ssse3", 1, 0, &Registers::ecx, 9, Saved::kAlways},
    {"fma", 1, 0, &Registers::ecx, 12, Saved::kYmm},
    {"sse4.1", 1, 0, &Registers::ecx, 19, Saved::kAlways},
    {"sse4.2", 1, 0, &Registers::ecx, 20, Saved::kAlways},
    {"movbe", 1, 0, &Registers::ecx, 22, Saved::kAlways},
    {"popcnt", 1, 0, &Registers::ecx, 23, Saved::kAlways},
    {"avx", 1, 0, &Registers::ecx, 28, Saved::kYmm},
    {"f16c", 1, 0, &Registers::ecx, 29, Saved::kYmm},
    {"bmi", 7, 0, &Registers::ebx, 3, Saved::kAlways},
    {"avx2", 7, 0, &Registers::ebx, 5, Saved::kYmm},
    {"bmi2", 7, 0, &Registers::ebx, 8, Saved::kAlways},
    {"avx512f", 7, 0, &Registers::ebx, 16, Saved::kZmm},
    {"avx512dq", 7, 0, &Registers::ebx, 17, Saved::kZmm},
    {"avx512cd", 7, 0, &Registers::ebx, 28, Saved::kZmm},
    {"avx512bw", 7, 0, &Registers::ebx, 30, Saved::kZmm},
    {"avx512vl", 7, 0, &Registers::ebx, 31, Saved::kZmm},
    {"avx512vbmi", 7, 0, &Registers::ecx, 1, Saved::kZmm},
    {"gfni", 7, 0, &Registers::ecx, 8, Saved::kAlways},
    {"vaes", 7, 0, &Registers::ecx, 9, Saved::kYmm},
    {"avx512vnni", 7, 0, &Registers::ecx, 11, Saved::kZmm},
    {"avx512fp16", 7, 0, &Registers::edx, 23, Saved::kZmm},
    {"amx-bf16", 7, 0, &Registers::edx, 22, Saved::kTiles},
    {"amx-tile", 7, 0, &Registers::edx, 24, Saved::kTiles},
    {"amx-int8", 7, 0, &Registers::edx, 25, Saved::kTiles},
    {"avxvnni", 7, 1, &Registers::eax, 4, Saved::kYmm},
    {"avx512bf16", 7, 1, &Registers::eax, 5, Saved::kZmm},
    {"lzcnt", 0x80000001, 0, &Registers::ecx, 5, Saved::kAlways},
}};

// Linux makes room for tiles only in processes that ask for it, and for all their threads.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Saved saved_state() {
  if ((cpuid(1, 0).ecx >> 27 & 1) == 0) return Saved::kAlways;  // OSXSAVE: xgetbv is not available
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kYmmState = 0x06;      // XMM, upper halves of YMM
  constexpr unsigned kZmmState = 0xe6;      // the same, mask registers, upper ZMM, ZMM16-31
  constexpr unsigned kTileState = 0x600e6;  // the same, tiles and their shapes
  if ((low & kTileState) == kTileState && may_use_tiles()) return Saved::kTiles;
  if ((low & kZmmState) == kZmmState) return Saved::kZmm;
  return (low & kYmmState) == kYmmState ? Saved::kYmm : Saved::kAlways;
}

}  // namespace

HostCpu detect_host_cpu(int /*cpu*/) {
  HostCpu host{.arch = Arch::kX86_64, .cpu = "x86-64", .features = {}};
  const Saved saved = saved_state();
  for (const CpuidBit& b : kCpuidBits) {
    const bool present = (cpuid(b.leaf, b.subleaf).*b.word >> b.bit & 1) != 0;
    if (present && b.needs <= saved) host.features.push_back(b.feature);
  }
  const Registers id = cpuid(0, 0);
  std::array<char, 12> vendor{};
  std::memcpy(vendor.data(), &id.ebx, 4);
  std::memcpy(vendor.data() + 4, &id.edx, 4);
  std::memcpy(vendor.data() + 8, &id.ecx, 4);
  const unsigned signature = cpuid(1, 0).eax;
  X86Model model{.vendor = {vendor.data(), vendor.size()},
                 .family = signature >> 8 & 0xf,
                 .model = signature >> 4 & 0xf};
  if (model.family == 0xf) model.family += signature >> 20 & 0xff;
  if (model.family >= 6) model.model |= signature >> 12 & 0xf0;
  host.cpu = x86_cpu_name(model, host.features);
  return host;
}

}  // namespace tessera::target
#endif
