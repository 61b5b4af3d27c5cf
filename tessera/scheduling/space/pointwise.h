// Stages without a reduction that run by themselves: elementwise chains, copies, gathers.
#pragma once

#include "tessera/scheduling/space/context.h"

namespace tessera::space {

// Vectors along the last axis, rows in parallel; transposing reads are tiled; where memory allows,
// all axes are one loop.
void schedule_pointwise(Context& context, std::size_t stage);

// Splits the last of `loops` (of `extent` iterations) into vectors for an expression of `nodes`
// nodes; appends the parts to `out` in place of it. Prefers no fewer than `least` vectors.
void vectorize_last(Context& context, const Stage& stage, const std::string& loop,
                    std::int64_t extent, Loops* out, std::int64_t least = 1);

// The same for a loop around which another stage is computed: the steps divide `extent` where whole
// vectors do. A step beyond its end would make that stage compute, and read packed operands, beyond
// its part.
void vectorize_part(Context& context, const Stage& stage, const std::string& loop,
                    std::int64_t extent, Loops* out);

}  // namespace tessera::space
