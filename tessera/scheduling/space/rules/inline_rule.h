// Which stages disappear into their users before the others get loops.
#pragma once

#include <string>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::space {

struct Inlined {
  std::string name;          // suffix of the sketches: "" or "+copy"
  schedule::Schedule steps;  // compute_inline
  std::vector<te::Op> ops;   // what is left
};

// One or two ways: all that pays; and, where that puts conditions into a reduction, the same with
// padded copies kept. Never empty.
std::vector<Inlined> inlined_variants(const te::Dag& dag);

}  // namespace tessera::space
