// One form for one computation: what two graphs write differently has the same text afterwards.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/lang/te/dag.h"

namespace tessera::te {

struct Canonical {
  Dag dag;
  std::vector<std::size_t> inputs;             // of each input: its number in the original
  std::map<std::string, std::string> renamed;  // inputs and stages whose name changed, old to new
};

// Operands that commute and are different tensors, or a tensor and a number, operations without an
// order among them, and inputs are put in an order that follows from the structure alone. If the
// inputs are p0, p1, ..., they and stages numbered apart (add, add_2) count in that order, and the
// name of the Dag lists its stages in it; names that someone chose, axes and outputs stay.
Canonical canonicalize(const Dag& dag);

// Steps or a candidate of the original, with the names of the canonical form.
std::string rename(std::string_view text, const std::map<std::string, std::string>& renamed);

// The expression and shapes of the reduction with the most points, without names; of a Dag that
// reduces nothing its whole text.
std::string reduction_of(const Dag& dag);

}  // namespace tessera::te
