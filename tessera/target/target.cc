#include "tessera/target/target.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/target/machine_table.h"

namespace tessera::target {
namespace {

// Insertions, deletions and replacements that turn one name into the other.
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

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
  // A long stray argument is not worth comparing; 64 is beyond any name.
  const std::string_view shown = name.substr(0, 64);
  // "skylake" means "skylake-avx512", however many letters are missing.
  const auto nearest = std::ranges::min_element(names, {}, [shown](const std::string& n) {
    return !shown.empty() && n.starts_with(shown) ? 0 : edit_distance(shown, n);
  });
  return make_error(ErrorCode::kInvalidArgument, "no target '{}'; did you mean '{}'? Targets: {}",
                    shown, *nearest, fmt::join(names, ", "));
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
