#include "tessera/machine/target/features.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace tessera::target {
namespace {

constexpr std::array<std::string_view, 19> kAArch64Features = {
    "fp-armv8", "neon",    "crc",     "aes",  "sha2", "lse",  "rdm", "rcpc", "jsconv", "complxnum",
    "fullfp16", "dotprod", "fp16fml", "sha3", "bf16", "i8mm", "sve", "sve2", "sme"};

constexpr std::array<std::string_view, 28> kX86Features = {
    "sse3",       "ssse3",    "sse4.1",   "sse4.2",   "popcnt",     "avx",        "f16c",
    "fma",        "avx2",     "bmi",      "bmi2",     "lzcnt",      "movbe",      "avx512f",
    "avx512cd",   "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512vnni", "avx512bf16",
    "avx512fp16", "avxvnni",  "gfni",     "vaes",     "amx-tile",   "amx-bf16",   "amx-int8"};

template <class Visit>
void for_each_feature(std::string_view features, Visit visit) {
  while (!features.empty()) {
    const std::size_t comma = std::min(features.find(','), features.size());
    const std::string_view item = features.substr(0, comma);
    if (item.size() > 1) visit(item.front() == '+', item.substr(1));
    features.remove_prefix(std::min(comma + 1, features.size()));
  }
}

}  // namespace

std::span<const std::string_view> known_features(Arch arch) {
  if (arch == Arch::kNone) return {};
  if (arch == Arch::kAArch64) return kAArch64Features;
  return kX86Features;
}

std::string feature_string(Arch arch, std::span<const std::string_view> present) {
  std::string text;
  for (const std::string_view name : known_features(arch)) {
    if (!text.empty()) text += ',';
    text += std::ranges::find(present, name) != present.end() ? '+' : '-';
    text += name;
  }
  return text;
}

bool has_feature(std::string_view features, std::string_view name) {
  bool present = false;
  for_each_feature(features, [&](bool on, std::string_view item) {
    if (item == name) present = on;
  });
  return present;
}

std::vector<std::string_view> present_features(std::string_view features) {
  std::vector<std::string_view> names;
  for_each_feature(features, [&](bool on, std::string_view item) {
    if (on && has_feature(features, item)) names.push_back(item);
  });
  return names;
}

namespace {

// A thread of a GPU reads 16 bytes at once and has at most 255 registers.
void derive_gpu(Target& t) {
  constexpr std::string_view kPrefix = "sm_";
  t.vector_bytes = 16;
  t.vector_registers = 255;
  t.has_fma = true;
  t.gpu.capability = 0;
  if (t.cpu.starts_with(kPrefix)) {
    const char* digits = t.cpu.data() + kPrefix.size();
    std::from_chars(digits, t.cpu.data() + t.cpu.size(), t.gpu.capability);
  }
  t.has_f16 = t.gpu.capability >= 53;
  t.has_bf16_dot = t.has_bf16_mma = t.has_i8_dot = t.has_i8_mma = false;
}

}  // namespace

void derive_from_features(Target& t) {
  if (t.arch == Arch::kNone) return derive_gpu(t);
  const auto has = [&t](std::string_view name) { return has_feature(t.features, name); };
  if (t.arch == Arch::kAArch64) {
    t.vector_bytes = 16;  // NEON; SVE registers are not used for code
    t.vector_registers = 32;
    t.has_fma = true;
    t.has_f16 = has("fullfp16");
    t.has_bf16_dot = has("bf16");
    t.has_bf16_mma = has("bf16");
    t.has_i8_dot = has("dotprod");
    t.has_i8_mma = has("i8mm");
    return;
  }
  // Knights processors have avx512f alone; code for 512-bit registers counts on the other three.
  const bool avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  t.vector_bytes = avx512 ? 64 : has("avx2") ? 32 : 16;
  t.vector_registers = avx512 ? 32 : 16;
  t.has_fma = has("fma");
  t.has_f16 = has("avx512fp16");
  t.has_bf16_dot = has("avx512bf16");
  t.has_bf16_mma = false;
  t.has_i8_dot = has("avx512vnni") || has("avxvnni");
  t.has_i8_mma = false;
  t.has_bf16_tiles = has("amx-tile") && has("amx-bf16");
  t.has_i8_tiles = has("amx-tile") && has("amx-int8");
}

}  // namespace tessera::target
