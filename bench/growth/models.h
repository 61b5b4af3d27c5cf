// Models whose size is a number: what the rows of the growth benchmark are made of.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/onnx/model.h"

namespace tessera::growth {

// "gpt", "convolutions", "chain", "fan_out", "concat", "split_concat", "matmuls_concat", "scan",
// "weights".
const std::vector<std::string>& model_names();

// gpt: n layers of width 64; convolutions: n of different channels; chain: n elementwise nodes;
// fan_out: n/2 readers of one tensor and a tree of adds; concat: of n inputs; split_concat: n
// parts, one operation each; matmuls_concat: n products of one input; scan: n steps; weights: n MiB
// in products.
onnx::Model make_model(const std::string& name, int n);

}  // namespace tessera::growth
