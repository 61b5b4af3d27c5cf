// Batch norms become parts of the convolutions in front of them.
#pragma once

#include "tessera/frontend/onnx/model.h"

namespace tessera::app {

// BatchNormalization of constants whose input is a Conv of constants that nothing else reads.
// Returns how many were folded.
int fold_batch_norms(onnx::Graph& graph);

}  // namespace tessera::app
