// Reductions along contiguous memory as vectors of partial results, folded at the end.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/scheduling/space/writer.h"

namespace tessera::space {

// One step of folding lanes: a stage, its loop over what is folded, and the lanes that are left.
struct Fold {
  std::string stage, loop, lane;
};

struct Folding {
  std::string partial;      // stage of the partial results
  std::string outer, lane;  // its loops: steps, lanes
  std::vector<Fold> folds;
  std::string last;  // loop of the stage itself, over the lanes that are left
};

// Factors `loop`, the innermost reduce loop of `stage`, into vectors of `width` lanes, which become
// the axis `axis`, and these into each of `lengths` in turn.
Folding fold_loop(Writer& writer, const std::string& stage, const std::string& loop,
                  std::size_t axis, std::int64_t width, std::span<const std::int64_t> lengths);

}  // namespace tessera::space
