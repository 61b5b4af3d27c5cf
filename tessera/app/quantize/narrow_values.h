// The values that narrow layers read as bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/app/quantize/layers.h"

namespace tessera::app {

struct NarrowValue {
  std::size_t group = 0;  // values with one scale: a pool and its input, the parts of a Concat
  // Whether all nodes read the bytes, so that no f32 tensor lies between narrow convolutions.
  // Matrix products leave the float value to residual additions and norms.
  bool for_all = false;
};

// By name: what the layers read and, of convolutions, what pools and concatenations in front of
// them take their values from.
std::map<std::string, NarrowValue> find_narrow_values(const onnx::Graph& graph,
                                                      const std::vector<Layer>& layers);

}  // namespace tessera::app
