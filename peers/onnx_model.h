// Writes one-node ONNX models (opset 17) in protobuf wire format, without protobuf.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tessera::peers {

struct OnnxAttribute {
  std::string name;
  std::variant<float, std::int64_t, std::vector<std::int64_t>> value;
};

struct OnnxNode {
  std::string op_type;
  std::vector<std::string> inputs;
  std::string output;
  std::vector<OnnxAttribute> attributes;
};

// A graph input or output; an initializer when `data` is not null. All are f32.
struct OnnxTensor {
  std::string name;
  std::vector<std::int64_t> dims;
  const float* data = nullptr;
};

// The bytes of a ModelProto whose inputs and initializers are `inputs`, in this order.
std::string write_onnx_model(const std::vector<OnnxNode>& nodes,
                             const std::vector<OnnxTensor>& inputs, const OnnxTensor& output);

}  // namespace tessera::peers
