#include "tessera/frontend/graph/passes/axis_groups.h"

#include <algorithm>

namespace tessera::graph {

std::optional<std::vector<AxisGroup>> axis_groups(const Shape& from, const Shape& to) {
  if (from.empty() || to.empty() || elements(from) == 0 || elements(from) != elements(to)) {
    return std::nullopt;
  }
  std::vector<AxisGroup> groups;
  std::size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    AxisGroup g{i, i + 1, j, j + 1};
    std::int64_t a = from[i++], b = to[j++];
    while (a != b) {
      if (a < b) {
        a *= from[i++];
      } else {
        b *= to[j++];
      }
    }
    g.from_end = i;
    g.to_end = j;
    groups.push_back(g);
  }
  // What is left has size 1.
  groups.back().from_end = from.size();
  groups.back().to_end = to.size();
  return groups;
}

namespace {

struct PlacedGroup {
  std::size_t position;  // in the order, of the first axis that has elements to order
  AxisGroup group;
};

// The group's place in the order, if its axes stay neighbours in their old sequence; axes of size 1
// may be anywhere.
std::optional<PlacedGroup> place(const AxisGroup& g, const Shape& from, const Permutation& order) {
  const Permutation where = inverse(order);
  std::optional<std::size_t> first;
  std::int64_t last = -1;
  for (std::size_t axis = g.from_begin; axis < g.from_end; ++axis) {
    if (from[axis] == 1) continue;
    if (!first) {
      first = static_cast<std::size_t>(where[axis]);
    } else {
      for (std::int64_t p = last + 1; p < where[axis]; ++p) {
        if (from[static_cast<std::size_t>(order[static_cast<std::size_t>(p)])] != 1) {
          return std::nullopt;
        }
      }
      if (where[axis] < last) return std::nullopt;
    }
    last = where[axis];
  }
  return PlacedGroup{first.value_or(static_cast<std::size_t>(where[g.from_begin])), g};
}

}  // namespace

std::optional<Permutation> order_through_reshape(const Shape& from, const Shape& to,
                                                 const Permutation& order) {
  const auto groups = axis_groups(from, to);
  if (!groups) return std::nullopt;
  std::vector<PlacedGroup> placed;
  for (const AxisGroup& g : *groups) {
    const auto p = place(g, from, order);
    if (!p) return std::nullopt;
    placed.push_back(*p);
  }
  std::sort(placed.begin(), placed.end(),
            [](const PlacedGroup& a, const PlacedGroup& b) { return a.position < b.position; });
  Permutation out;
  for (const PlacedGroup& p : placed) {
    for (std::size_t axis = p.group.to_begin; axis < p.group.to_end; ++axis) {
      out.push_back(static_cast<std::int64_t>(axis));
    }
  }
  return out;
}

}  // namespace tessera::graph
