// What a reshape does to axes: the smallest groups of neighbours that it splits or merges.
#pragma once

#include <optional>

#include "tessera/frontend/graph/passes/permutation.h"

namespace tessera::graph {

// Axes [from_begin, from_end) of one shape hold the elements of [to_begin, to_end) of the other.
struct AxisGroup {
  std::size_t from_begin, from_end, to_begin, to_end;
};
// In order, covering all axes of both; none when a shape has rank 0 or no elements.
std::optional<std::vector<AxisGroup>> axis_groups(const Shape& from, const Shape& to);

// The order Q with reshape(transpose(x, P)) == transpose(reshape(x), Q), the first reshape to the
// permuted shape; none when P takes the axes of a group apart.
std::optional<Permutation> order_through_reshape(const Shape& from, const Shape& to,
                                                 const Permutation& order);

}  // namespace tessera::graph
