// The families of operators that make up the table; each is one file (or more) of this folder.
#pragma once

#include <vector>

#include "tessera/frontend/graph/op.h"

namespace tessera::graph {

std::vector<OpDef> pointwise_ops();
std::vector<OpDef> movement_ops();
std::vector<OpDef> indexing_ops();
std::vector<OpDef> host_ops();
std::vector<OpDef> contraction_ops();
std::vector<OpDef> convolution_ops();
std::vector<OpDef> window_ops();
std::vector<OpDef> sampling_ops();
std::vector<OpDef> reduction_ops();
std::vector<OpDef> normalization_ops();
std::vector<OpDef> storage_ops();

}  // namespace tessera::graph
