// Asks for memory before it is read: what the `prefetch` steps of a schedule become.
#pragma once

#include <functional>
#include <vector>

#include "tessera/scheduling/lower/stage_domains.h"

namespace tessera::lower {

// How a nest reads tensors.
struct Reads {
  std::function<bool(const ir::Buffer&)> known;          // whether it has a place already
  std::function<ir::Expr(const ir::Expr& load)> placed;  // the load of that place
};

// At the start of each iteration of loop `iter` of the stage. A prefetch is a hint: it is dropped
// where the tensor is made further in, or where finding the address needs a read that may lie
// outside.
std::vector<ir::Stmt> prefetches(const schedule::State& state, const Domains& domains,
                                 const schedule::Stage& stage, int iter, const Reads& reads);

// Asks for the lines of a tile that will be read back after the loops from position `first` on:
// both ends of each row of it.
ir::Stmt prefetch_tile(const schedule::Stage& stage, const StageDomain& domain, int first,
                       const std::vector<ir::Expr>& tile);

}  // namespace tessera::lower
