// Which stages disappear into their users.
#pragma once

#include <string>
#include <vector>

#include "tessera/scheduling/space/analysis.h"

namespace tessera::space {

enum class Inlining {
  kReasoned,
  kEager,    // also what is computed again for each use
  kLazy,     // nothing into reductions
  kThreads,  // of a GPU: eager but for transforms, which have many values in common
};

// Names of the stages to inline, users before producers. `analysis` is that of the Dag as written.
// Stays: what reduces or is an output; the operands of a contraction; what costs something and
// would be computed more than once; what would make an expression too long to compile quickly.
std::vector<std::string> choose_inlined(const Analysis& analysis,
                                        Inlining inlining = Inlining::kReasoned);

// True if both operands of the product vary along the last output axis: depthwise convolution.
bool is_lanewise(const Stage& stage);
bool is_contraction(const Stage& stage);  // a sum of products that is not lane-wise

}  // namespace tessera::space
