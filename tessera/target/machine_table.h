// Machines that code can be generated for without being on one.
#pragma once

#include <span>
#include <string_view>

#include "tessera/target/target.h"

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

struct Alias {
  std::string_view name, machine;
};

std::span<const Machine> machines();
std::span<const Alias> aliases();

Target make_target(const Machine& machine);

}  // namespace tessera::target
