#include "tessera/scheduling/space/rules/tile_layout.h"

#include <algorithm>

namespace tessera::space {
namespace {

int dim_of(const Access& access, std::size_t axis) {
  for (std::size_t d = 0; d < access.indices.size(); ++d) {
    if (access.indices[d].single_axis() == static_cast<int>(axis)) return static_cast<int>(d);
  }
  return -1;
}

}  // namespace

bool can_follow_loops(const Access& access) {
  std::vector<int> seen;
  for (const Index& index : access.indices) {
    const int axis = index.single_axis();
    if (axis < 0 && (!index.terms.empty() || !index.irregular.empty())) return false;
    if (axis >= 0 && std::find(seen.begin(), seen.end(), axis) != seen.end()) return false;
    seen.push_back(axis);
  }
  return access.indices.size() <= 8;
}

schedule::Layout follow_loops(const Access& access, const std::vector<TileLoop>& loops) {
  schedule::Layout out;
  std::vector<bool> stored(access.indices.size(), false);
  for (const TileLoop& loop : loops) {
    if (const int d = dim_of(access, loop.axis); d >= 0) stored[static_cast<std::size_t>(d)] = true;
  }
  for (std::size_t d = 0; d < stored.size(); ++d) {
    if (!stored[d]) out.push_back({static_cast<int>(d), 1, 0});
  }
  for (const TileLoop& loop : loops) {
    const int d = dim_of(access, loop.axis);
    if (d < 0 || loop.modulus == 1) continue;
    // Two parts of one dimension that meet are one.
    const bool meets = !out.empty() && out.back().dim == d && loop.modulus != 0 &&
                       out.back().divisor == loop.divisor * loop.modulus;
    if (meets) {
      out.back().divisor = loop.divisor;
      if (out.back().modulus != 0) out.back().modulus *= loop.modulus;
    } else {
      out.push_back({d, loop.divisor, loop.modulus});
    }
  }
  return out;
}

}  // namespace tessera::space
