// Undoes the merging of axes between a sum and what is computed from it point by point.
#pragma once

#include "tessera/lang/te/dag.h"

namespace tessera::te {

// A stage that reads a reduction as S[.., c // C, c %% C, ..] (the channels of a grouped
// convolution) gets the two axes of S in the place of its axis c, and so does every stage that
// reads that stage at c. Its loops can then be those of the reduction. An output of the Dag may
// gain a dimension that way: the same elements in the same order of memory.
Dag split_merged_axes(Dag dag);

}  // namespace tessera::te
