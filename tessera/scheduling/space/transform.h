// Stages that choose a row of a small matrix by an index: the transforms of Winograd convolution.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "tessera/scheduling/space/context.h"

namespace tessera::space {

// True if values select by `axis == constant` or `axis mod constant == constant` over a few values:
// unrolled, the selection costs nothing.
bool is_transform(const Stage& stage);

// A product between two transforms. The last stage writes the result in tiles, row of tiles by row
// of tiles; everything before it may be computed for one such row at a time.
struct TransformChain {
  std::size_t input = 0, product = 0, output = 0;  // stages
};
std::optional<TransformChain> find_chain(const Analysis& analysis);
// True if that is preferred: what is written for a row of tiles then stays in L2 beside the
// weights, which every row reads again, and rows are enough for the cores.
bool pays_by_rows(const Context& context, const TransformChain& chain);

// The axes that are unrolled: those the stage selects by, and those the transform before it does,
// which then reads its input once for all of them. With the modulus (0: the axis itself).
std::map<std::size_t, std::int64_t> unrolled_axes(const Context& context, std::size_t stage);

// The transform before this one is computed for what one iteration of `loop` needs of it.
void attach_transform(Context& context, std::size_t stage, const std::string& loop);

// The stage and the transform before it, one vector of the last axis at a time.
void schedule_transform(Context& context, std::size_t stage);

}  // namespace tessera::space
