// SmoothQuant: part of the range of activations moves into the weights that multiply them.
#pragma once

#include "tessera/app/quantize/calibrate.h"
#include "tessera/app/quantize/layers.h"

namespace tessera::app {

// Of matrix products whose left operand is a norm over the last axis: channel c is divided by
// sqrt(peak of the activations / peak of the weights) and its weights multiplied by the same, in
// all products that read the norm alike. The division is part of the norm's own factors where
// nothing else reads it, else a node. Returns the number of norms.
int smooth_layers(onnx::Graph& graph, const std::map<std::string, Observed>& seen);

}  // namespace tessera::app
