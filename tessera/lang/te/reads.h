// How an operation reads memory: the indices of every read as sums over its axes.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/lang/te/dag.h"

namespace tessera::te {

// One part of an index: coefficient * axis.
struct IndexTerm {
  std::size_t axis = 0;  // of the operation: output axes first, then reduce axes
  std::int64_t coefficient = 0;
};

// One index of a read. Axes below a division, a modulo or another read are irregular: they occur,
// but the index is not linear in them.
struct Index {
  std::vector<IndexTerm> terms;
  std::vector<std::size_t> irregular;

  // The axis when the index is exactly that axis (plus a constant); -1 otherwise.
  int single_axis() const;
};

struct Access {
  ir::Buffer buffer;
  std::vector<Index> indices;
  std::vector<std::int64_t> strides;  // per axis, elements of the row-major buffer
  std::vector<bool> irregular;        // per axis
  bool conditional = false;           // below a select

  bool uses(std::size_t axis) const { return strides[axis] != 0 || irregular[axis]; }
  bool regular() const;
};

// One for each load of the values, in order of occurrence; reads inside the indices of another
// (gathers) come behind it.
std::vector<Access> reads_of(const Op& op);

}  // namespace tessera::te
