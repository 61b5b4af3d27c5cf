// Cross-layer equalisation: channels between two layers get the same share of the weights' range on
// both sides.
#pragma once

#include "tessera/frontend/onnx/model.h"

namespace tessera::app {

// Of two layers with nothing but a ReLU between them, which nothing else reads. What the model
// computes stays the same but for rounding. Returns the number of pairs.
int equalize_layers(onnx::Graph& graph);

}  // namespace tessera::app
