#include "tessera/frontend/plan/point.h"

#include <algorithm>
#include <array>

#include "tessera/frontend/plan/convolution.h"
#include "tessera/frontend/plan/pointwise.h"
#include "tessera/support/check.h"

namespace tessera::plan {

const KindInfo& info(PointKind kind) {
  static const std::array<KindInfo, kPointKinds> table = {{
      {"layouts", {kLast, kFirst}},
      {"concatenations", {kJoined, kSplitUp}},
      {"convolutions", convolution_algorithms()},
      {"pointwise", {kProduct, kDirect, kChained}},
      {"contractions", {kSeparate, kMerged}},
      {"fusion", {kFused, kStored}},
      {"fronts", {kStored, kFused}},
  }};
  return table[static_cast<std::size_t>(kind)];
}

std::string to_text(const Decisions& decisions) {
  std::string out;
  for (const auto& [key, value] : decisions) {
    out += key;
    out += " = ";
    out += value;
    out += '\n';
  }
  return out;
}

Point make_point(PointKind kind, std::string key, const std::string& preferred) {
  Point point{kind, std::move(key), info(kind).values, 0};
  const auto it = std::find(point.values.begin(), point.values.end(), preferred);
  TESSERA_CHECK(it != point.values.end(), "{}: no value {}", point.key, preferred);
  point.preferred = static_cast<std::size_t>(it - point.values.begin());
  return point;
}

}  // namespace tessera::plan
