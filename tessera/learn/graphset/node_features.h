// The numbers of one node in TpuGraphs.
#pragma once

#include "tessera/learn/graphset/hlo.h"

namespace tessera::graphset {

inline constexpr int kNodeFeatures = 140;

// Appends kNodeFeatures values.
void append_node_features(const HloInstruction& instruction, bool is_root, std::vector<float>* out);

}  // namespace tessera::graphset
