#include "tessera/scheduling/space/decision.h"

#include <fmt/format.h>

#include "tessera/support/check.h"

namespace tessera::space {

const char* to_text(DecisionKind kind) {
  switch (kind) {
    case DecisionKind::kTile:
      return "tile";
    case DecisionKind::kOrder:
      return "order";
    case DecisionKind::kLocation:
      return "location";
    case DecisionKind::kCache:
      return "cache";
    case DecisionKind::kParallel:
      return "parallel";
    case DecisionKind::kUnroll:
      return "unroll";
    case DecisionKind::kVector:
      return "vector";
    case DecisionKind::kTail:
      return "tail";
    case DecisionKind::kLayout:
      return "layout";
    case DecisionKind::kThread:
      return "thread";
  }
  return "?";
}

std::string Decision::label(std::int32_t index) const {
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

}  // namespace tessera::space
