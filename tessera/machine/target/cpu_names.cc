// From a processor's own identification to the name LLVM has for it. Names newer than LLVM 16 fall
// back to the nearest older relative, so that every supported LLVM knows what it is told.
#include <algorithm>
#include <array>

#include "tessera/machine/target/host_cpu.h"

namespace tessera::target {
namespace {

struct ArmPart {
  unsigned implementer, part;
  std::string_view cpu;
};

// Implementer and part numbers as in Linux' arch/arm64/include/asm/cputype.h.
constexpr std::array<ArmPart, 41> kArmParts = {{
    {0x41, 0xd03, "cortex-a53"},  {0x41, 0xd04, "cortex-a35"},  {0x41, 0xd05, "cortex-a55"},
    {0x41, 0xd07, "cortex-a57"},  {0x41, 0xd08, "cortex-a72"},  {0x41, 0xd09, "cortex-a73"},
    {0x41, 0xd0a, "cortex-a75"},  {0x41, 0xd0b, "cortex-a76"},  {0x41, 0xd0c, "neoverse-n1"},
    {0x41, 0xd0d, "cortex-a77"},  {0x41, 0xd40, "neoverse-v1"}, {0x41, 0xd41, "cortex-a78"},
    {0x41, 0xd44, "cortex-x1"},   {0x41, 0xd46, "cortex-a510"}, {0x41, 0xd47, "cortex-a710"},
    {0x41, 0xd48, "cortex-x2"},   {0x41, 0xd49, "neoverse-n2"}, {0x41, 0xd4a, "neoverse-e1"},
    {0x41, 0xd4b, "cortex-a78c"}, {0x41, 0xd4d, "cortex-a715"}, {0x41, 0xd4e, "cortex-x3"},
    {0x41, 0xd4f, "neoverse-v2"}, {0x41, 0xd80, "cortex-a510"}, {0x41, 0xd81, "cortex-a715"},
    {0x41, 0xd82, "cortex-x3"},   {0x41, 0xd84, "neoverse-v2"}, {0x41, 0xd8e, "neoverse-n2"},
    {0x46, 0x001, "a64fx"},       {0x48, 0xd01, "tsv110"},      {0x4e, 0x004, "carmel"},
    {0x61, 0x022, "apple-m1"},    {0x61, 0x023, "apple-m1"},    {0x61, 0x024, "apple-m1"},
    {0x61, 0x025, "apple-m1"},    {0x61, 0x028, "apple-m1"},    {0x61, 0x029, "apple-m1"},
    {0x61, 0x032, "apple-m2"},    {0x61, 0x033, "apple-m2"},    {0x61, 0x034, "apple-m2"},
    {0xc0, 0xac3, "ampere1"},     {0xc0, 0xac4, "ampere1a"},
}};

struct IntelModel {
  unsigned model;
  std::string_view cpu;
};

// Family 6 model numbers as in Linux' arch/x86/include/asm/intel-family.h.
constexpr std::array<IntelModel, 32> kIntelModels = {{
    {0x3c, "haswell"},        {0x3f, "haswell"},        {0x45, "haswell"},
    {0x46, "haswell"},        {0x3d, "broadwell"},      {0x47, "broadwell"},
    {0x4f, "broadwell"},      {0x56, "broadwell"},      {0x4e, "skylake"},
    {0x5e, "skylake"},        {0x8e, "skylake"},        {0x9e, "skylake"},
    {0xa5, "skylake"},        {0xa6, "skylake"},        {0x55, "skylake-avx512"},
    {0x66, "cannonlake"},     {0x6a, "icelake-server"}, {0x6c, "icelake-server"},
    {0x7d, "icelake-client"}, {0x7e, "icelake-client"}, {0x8c, "tigerlake"},
    {0x8d, "tigerlake"},      {0xa7, "rocketlake"},     {0x97, "alderlake"},
    {0x9a, "alderlake"},      {0xb7, "alderlake"},      {0xba, "alderlake"},
    {0xbf, "alderlake"},      {0xaa, "alderlake"},      {0x8f, "sapphirerapids"},
    {0xcf, "sapphirerapids"}, {0xad, "sapphirerapids"},
}};

bool contains(const std::vector<std::string_view>& features, std::string_view name) {
  return std::ranges::find(features, name) != features.end();
}

std::string_view amd_cpu_name(unsigned family, unsigned model) {
  if (family == 0x17) return model < 0x30 ? "znver1" : "znver2";
  if (family == 0x19) {
    const bool zen4 =
        (model >= 0x10 && model < 0x20) || (model >= 0x60 && model < 0x80) || (model >= 0xa0);
    return zen4 ? "znver4" : "znver3";
  }
  // Family 0x1a is Zen 5, which only LLVM 19 and newer know.
  if (family == 0x1a) return "znver4";
  return {};
}

std::string_view x86_level(const std::vector<std::string_view>& features) {
  const auto all = [&features](std::initializer_list<std::string_view> names) {
    return std::ranges::all_of(names,
                               [&](std::string_view name) { return contains(features, name); });
  };
  if (!all({"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"})) return "x86-64";
  if (!all({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"})) return "x86-64-v2";
  if (!all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})) return "x86-64-v3";
  return "x86-64-v4";
}

}  // namespace

std::string_view aarch64_cpu_name(unsigned long midr) {
  const unsigned long implementer = midr >> 24 & 0xff;
  const unsigned long part = midr >> 4 & 0xfff;
  const auto* row = std::ranges::find_if(
      kArmParts, [&](const ArmPart& p) { return p.implementer == implementer && p.part == part; });
  return row == kArmParts.end() ? "generic" : row->cpu;
}

std::string_view x86_cpu_name(const X86Model& model,
                              const std::vector<std::string_view>& features) {
  std::string_view name;
  if (model.vendor == "GenuineIntel" && model.family == 6) {
    const auto* row = std::ranges::find_if(
        kIntelModels, [&](const IntelModel& m) { return m.model == model.model; });
    if (row != kIntelModels.end()) name = row->cpu;
    // Three generations share model 0x55.
    if (name == "skylake-avx512" && contains(features, "avx512vnni")) {
      name = contains(features, "avx512bf16") ? "cooperlake" : "cascadelake";
    }
  } else if (model.vendor == "AuthenticAMD") {
    name = amd_cpu_name(model.family, model.model);
  }
  return name.empty() ? x86_level(features) : name;
}

}  // namespace tessera::target
