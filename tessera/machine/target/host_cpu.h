// What only the processor or the kernel can tell; one implementation per architecture, in
// host_cpu_<arch>.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/machine/target/target.h"

namespace tessera::target {

struct HostCpu {
  Arch arch = Arch::kX86_64;
  std::string cpu;  // LLVM name, "generic" or "x86-64-v*" if the model is unknown
  std::vector<std::string_view> features;  // usable ones, by their LLVM names (known_features)
};

// Needs: cpu is a processor this process may run on.
HostCpu detect_host_cpu(int cpu);

// LLVM name for an AArch64 MIDR_EL1 value; "generic" if unknown.
std::string_view aarch64_cpu_name(unsigned long midr);

// What cpuid leaves 0 and 1 say. `features` separates models that share a number.
// The last resort is the widest x86-64 level that the features cover.
struct X86Model {
  std::string_view vendor;  // "GenuineIntel", ...
  unsigned family = 0, model = 0;
};
std::string_view x86_cpu_name(const X86Model& model, const std::vector<std::string_view>& features);

}  // namespace tessera::target
