// In which type each layer of a model is computed, and why.
#pragma once

#include <string>
#include <vector>

#include "tessera/app/compile/decide_model.h"

namespace tessera::app {

// A convolution or a product of matrices.
struct LayerType {
  std::string name;    // the model's node: "Conv /layer1/conv1"
  std::string type;    // of its operands: "f32", "u8 x i8"
  std::string reason;  // "depthwise", "the plan", ...
  bool bytes = false;  // it multiplies bytes

  friend bool operator==(const LayerType&, const LayerType&) = default;
};

// In the order of the model, each of its nodes once.
std::vector<LayerType> layer_types(const DecidedModel& model, const CompileOptions& options);

// "41 of 53 layers multiply bytes; 12 in f32: depthwise"; empty: none does, and none could.
std::string layers_line(const std::vector<LayerType>& layers);

}  // namespace tessera::app
