#include "tessera/target/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/support/nearest_name.h"
#include "tessera/target/machine_table.h"

namespace tessera::target {

std::vector<std::string> target_names() {
  std::vector<std::string> names = {"host"};
  for (const Machine& m : machines()) names.emplace_back(m.name);
  for (const Alias& a : aliases()) names.emplace_back(a.name);
  return names;
}

Result<Target> find_target(std::string_view name) {
  if (name == "host") return host();
  std::string_view machine = name;
  for (const Alias& a : aliases()) {
    if (a.name == name) machine = a.machine;
  }
  for (const Machine& m : machines()) {
    if (m.name == machine) return make_target(m);
  }
  const std::vector<std::string> names = target_names();
  return make_error(ErrorCode::kInvalidArgument, "no target '{}'; did you mean '{}'? Targets: {}",
                    name.substr(0, 64), nearest_name(name, names), fmt::join(names, ", "));
}

std::string default_triple(Arch arch) {
  return arch == Arch::kAArch64 ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu";
}

std::string to_text(const Target& t) {
  return fmt::format(
      "{} triple={} cpu={} features={} vector={}x{} cores={} l1={} l2={} l3={} line={}", t.name,
      t.triple, t.cpu, t.features, t.vector_registers, t.vector_bytes, t.cores, t.l1_bytes,
      t.l2_bytes, t.l3_bytes, t.line_bytes);
}

}  // namespace tessera::target
