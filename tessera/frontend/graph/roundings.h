// Where values are rounded on the way to each output of a graph.
#pragma once

#include <vector>

#include "tessera/frontend/graph/graph.h"
#include "tessera/support/tolerance.h"

namespace tessera::graph {

// Per output of the graph: the roundings (te/roundings.h) of the nodes that it needs and that
// depend on an input. What is made of constants alone is the same in every build.
std::vector<Roundings> roundings(const Graph& graph, Products products = Products::kExact);

// Per output: the magnitude of the terms that its values were made of last, where it does not
// follow from the values: 1 of a sigmoid, whose smallest values may come of 1/2 - 1/2. 0: unknown.
std::vector<double> term_magnitudes(const Graph& graph);

}  // namespace tessera::graph
