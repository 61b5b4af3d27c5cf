// How what a stage computes lies in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/schedule/state.h"

namespace tessera::schedule {

// Widens `shape`, per output axis, until the strides are those that storage_align asks for.
void align_strides(const Stage& stage, std::vector<std::int64_t>* shape);

}  // namespace tessera::schedule
