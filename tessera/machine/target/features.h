// The instruction-set features Tessera decides by, and what follows from them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/machine/target/target.h"

namespace tessera::target {

// LLVM names in the order of the feature string. A target mentions every one of them, with '+' or
// '-': a CPU name alone would make LLVM assume what the machine may lack (SVE hidden by a
// hypervisor, AVX-512 switched off).
std::span<const std::string_view> known_features(Arch arch);

// "+neon,-sve,...": every known feature, '+' for those in `present`. Names outside known_features
// are ignored.
std::string feature_string(Arch arch, std::span<const std::string_view> present);

// True if `features` holds "+name" and no later "-name".
bool has_feature(std::string_view features, std::string_view name);

// The names with '+'.
std::vector<std::string_view> present_features(std::string_view features);

// Sets the vector width, the register count and every has_* field from t.arch and t.features; of
// GPUs also the compute capability, from t.cpu.
void derive_from_features(Target& t);

}  // namespace tessera::target
