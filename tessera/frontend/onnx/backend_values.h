// Sequences and optional values of backend cases. An imported graph has tensors at its border only:
// a model that takes or gives others is rewritten for the tensors that a data set holds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/onnx/model.h"

namespace tessera::onnx {

// One file of a data set.
struct BackendValue {
  enum class Kind { kTensor, kSequence, kAbsent };  // kAbsent: an optional without value
  Kind kind = Kind::kTensor;
  std::vector<HostTensor> tensors;  // exactly one for kTensor
};

// True for the types (ValueInfo::type) that parse_backend_value reads.
bool is_backend_type(const std::string& type);
// kUnsupported: elements without DType, sequences of sequences.
Result<BackendValue> parse_backend_value(std::string_view bytes, const std::string& type);

// Tensors that the rewritten model takes for its inputs, or gives for its outputs: a sequence that
// is given begins with its length.
std::vector<HostTensor> input_tensors(const std::vector<BackendValue>& inputs);
std::vector<HostTensor> output_tensors(const std::vector<BackendValue>& outputs);

// `model` with tensors for its first inputs and outputs. `inputs` belong to the inputs without
// initializer, in order. kUnsupported: an output is absent.
Result<Model> with_tensor_border(const Model& model, const std::vector<BackendValue>& inputs,
                                 const std::vector<BackendValue>& outputs);

}  // namespace tessera::onnx
