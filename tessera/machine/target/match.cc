#include "tessera/machine/target/match.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>

#include "tessera/machine/target/fast_math.h"

namespace tessera::target {
namespace {

struct Ability {
  const char *word, *name;
  bool Target::*has;
};
constexpr Ability kAbilities[] = {{"fma", "fused multiply-add", &Target::has_fma},
                                  {"f16", "f16 arithmetic", &Target::has_f16},
                                  {"bf16_dot", "bf16 dot products", &Target::has_bf16_dot},
                                  {"bf16_mma", "bf16 matrix products", &Target::has_bf16_mma},
                                  {"i8_dot", "int8 dot products", &Target::has_i8_dot},
                                  {"i8_mma", "int8 matrix products", &Target::has_i8_mma}};
// What is made without them runs as well as before where they exist.
constexpr Ability kTiles[] = {{"bf16_tiles", "bf16 matrix tiles", &Target::has_bf16_tiles},
                              {"i8_tiles", "int8 matrix tiles", &Target::has_i8_tiles}};

// Of a cache: by which it may be smaller or larger.
constexpr double kCacheTolerance = 1.0 / 16;

bool near(std::int64_t a, std::int64_t b) {
  return static_cast<double>(std::abs(a - b)) <=
         kCacheTolerance * static_cast<double>(std::max(a, b));
}

}  // namespace

std::string mismatch(const Target& made_for, const Target& wanted) {
  if (made_for.kind != wanted.kind || made_for.arch != wanted.arch) {
    return fmt::format("made for {}, wanted for {}", made_for.triple, wanted.triple);
  }
  if (made_for.vector_bytes != wanted.vector_bytes ||
      made_for.vector_registers != wanted.vector_registers) {
    return fmt::format("made for {} registers of {} bytes, wanted for {} of {}",
                       made_for.vector_registers, made_for.vector_bytes, wanted.vector_registers,
                       wanted.vector_bytes);
  }
  for (const auto& [word, name, has] : kAbilities) {
    if (made_for.*has == wanted.*has) continue;
    return made_for.*has ? fmt::format("made with {}, which {} lacks", name, wanted.name)
                         : fmt::format("made without {}, which {} has", name, wanted.name);
  }
  for (const auto& [word, name, has] : kTiles) {
    if (made_for.*has && !(wanted.*has))
      return fmt::format("made with {}, which {} lacks", name, wanted.name);
  }
  if (products_of(made_for) == Products::kTf32 && products_of(wanted) == Products::kExact)
    return "made with products in tf32, wanted without (fast math)";
  if (wanted.is_gpu() && made_for.gpu.capability > wanted.gpu.capability) {
    return fmt::format("made for {}, wanted for the older {}", made_for.cpu, wanted.cpu);
  }
  return "";
}

std::string machine_kind(const Target& t) {
  std::string out = fmt::format("{}:{}x{}:", t.triple.substr(0, t.triple.find('-')),
                                t.vector_registers, t.vector_bytes);
  for (const auto& [word, name, has] : kAbilities) {
    if (t.*has) out += (out.back() == ':' ? "" : "+") + std::string(word);
  }
  if (products_of(t) == Products::kTf32) out += "+tf32";
  if (t.is_gpu()) out += ":" + t.cpu;
  return out;
}

bool same_machine(const Target& a, const Target& b) {
  Target same = b;
  same.name = a.name;
  same.cores = a.cores;
  same.threads = a.threads;
  return to_text(a) == to_text(same);
}

bool same_group(const Target& a, const Target& b) {
  if (!near(a.l1_bytes, b.l1_bytes) || !near(a.l2_bytes, b.l2_bytes) ||
      !near(a.l3_bytes, b.l3_bytes)) {
    return false;
  }
  Target same = b;
  same.l1_bytes = a.l1_bytes;
  same.l2_bytes = a.l2_bytes;
  same.l3_bytes = a.l3_bytes;
  return same_machine(a, same);
}

}  // namespace tessera::target
