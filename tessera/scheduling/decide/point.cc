#include "tessera/scheduling/decide/point.h"

#include <fmt/format.h>

#include "tessera/support/check.h"

namespace tessera::decide {

const char* to_text(PointKind kind) {
  static constexpr const char* kNames[] = {
      "tile",   "order",  "location",  "cache",    "parallel",  "unroll",    "vector",
      "tail",   "layout", "thread",    "split",    "algorithm", "pointwise", "merge",
      "fusion", "front",  "precision", "schedule", "integer",   "launch",    "storage"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string Point::label(std::int32_t index) const {
  const auto i = static_cast<std::size_t>(index);
  TESSERA_CHECK(i < values.size(), "decision {} has no value {}", name, index);
  if (!labels.empty()) return labels[i];
  return fmt::format("{}", fmt::join(values[i], "x"));
}

std::uint64_t hash_of(const Candidate& candidate) {
  const auto mix = [](std::uint64_t h, std::int32_t value) {
    h ^= static_cast<std::uint32_t>(value) + 0x9e3779b97f4a7c15u;
    h *= 0xff51afd7ed558ccdu;
    return h ^ (h >> 32);
  };
  std::uint64_t h = mix(0xcbf29ce484222325u, candidate.sketch);
  for (const std::int32_t c : candidate.choice) h = mix(h, c);
  return h;
}

}  // namespace tessera::decide
