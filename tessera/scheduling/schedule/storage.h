// How what a stage computes lies in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/scheduling/schedule/state.h"

namespace tessera::schedule {

// Per output axis: room for what its loops run over, given the extents of all iterators. Splits
// that are padded round up.
std::vector<std::int64_t> stored_extents(const Stage& stage,
                                         const std::vector<std::int64_t>& iter_extents);

// Widens `shape`, per output axis, until the strides are those that storage_align asks for.
// `layout`: of the stage's output; null: as declared.
void align_strides(const Stage& stage, const Layout* layout, std::vector<std::int64_t>* shape);

}  // namespace tessera::schedule
