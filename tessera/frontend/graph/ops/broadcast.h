// NumPy broadcasting of shapes, and the axes that stages of graph operators are named by.
#pragma once

#include <vector>

#include "tessera/frontend/graph/op.h"

namespace tessera::graph {

// The shape that all of `shapes` broadcast to; kInvalidArgument when there is none.
Result<Shape> broadcast_shapes(const std::vector<const Shape*>& shapes);
// True when `shape` broadcasts to `target` without changing it.
bool broadcasts_to(const Shape& shape, const Shape& target);

// Axes i0, i1, ... (or another letter) over a shape.
te::NamedAxes axes_over(const Shape& shape, const char* letter = "i");

// The only element of a constant tensor of one element, or null: for expressions that take it as an
// immediate.
ir::Expr immediate(const HostTensor* constant);

}  // namespace tessera::graph
