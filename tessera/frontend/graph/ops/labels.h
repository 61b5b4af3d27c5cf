// Operands whose axes have labels, one letter each.
#pragma once

#include <map>
#include <string>

#include "tessera/frontend/graph/op.h"

namespace tessera::graph {

// Adds the extents of an operand's labels; kInvalidArgument where one has two.
Result<void> read_labels(const std::string& labels, const Shape& shape,
                         std::map<char, std::int64_t>* extents);
// The shape of a result with these labels.
Result<Shape> labelled_shape(const std::string& labels,
                             const std::map<char, std::int64_t>& extents);

}  // namespace tessera::graph
