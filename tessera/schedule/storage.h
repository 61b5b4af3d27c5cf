// How what a stage computes lies in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/schedule/state.h"

namespace tessera::schedule {

// Widens `shape`, per output axis, until the strides are those that storage_align asks for.
// `layout`: of the stage's output; null: as declared.
void align_strides(const Stage& stage, const Layout* layout, std::vector<std::int64_t>* shape);

}  // namespace tessera::schedule
