#include "peers/onnx_model.h"

#include <cstring>
#include <string_view>

namespace tessera::peers {
namespace {

// Field numbers are those of onnx.proto3; each function below names its message.
class Message {
 public:
  Message& integer(int field, std::int64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& real(int field, float value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 5);
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof raw);
    return *this;
  }
  Message& text(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_.push_back(static_cast<char>(value | 128));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

constexpr std::int64_t kFloat = 1;  // TensorProto.DataType

std::string attribute_proto(const OnnxAttribute& attribute) {
  enum Type : std::int64_t { kReal = 1, kInteger = 2, kIntegers = 7 };
  Message message;
  message.text(1, attribute.name);
  if (const auto* real = std::get_if<float>(&attribute.value)) {
    message.real(2, *real).integer(20, kReal);
  } else if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) {
    message.integer(3, *integer).integer(20, kInteger);
  } else {
    for (const std::int64_t i : std::get<std::vector<std::int64_t>>(attribute.value)) {
      message.integer(8, i);
    }
    message.integer(20, kIntegers);
  }
  return message.bytes();
}

std::string node_proto(const OnnxNode& node) {
  Message message;
  for (const std::string& input : node.inputs) message.text(1, input);
  message.text(2, node.output).text(4, node.op_type);
  for (const OnnxAttribute& attribute : node.attributes)
    message.text(5, attribute_proto(attribute));
  return message.bytes();
}

std::string tensor_proto(const OnnxTensor& tensor) {
  Message message;
  std::size_t bytes = sizeof(float);
  for (const std::int64_t dim : tensor.dims) {
    message.integer(1, dim);
    bytes *= static_cast<std::size_t>(dim);
  }
  message.integer(2, kFloat).text(8, tensor.name);
  message.text(9, std::string_view(reinterpret_cast<const char*>(tensor.data), bytes));
  return message.bytes();
}

std::string value_info_proto(const OnnxTensor& tensor) {
  Message shape;
  for (const std::int64_t dim : tensor.dims) shape.text(1, Message().integer(1, dim).bytes());
  const std::string type = Message().integer(1, kFloat).text(2, shape.bytes()).bytes();
  return Message().text(1, tensor.name).text(2, Message().text(1, type).bytes()).bytes();
}

}  // namespace

std::string write_onnx_model(const std::vector<OnnxNode>& nodes,
                             const std::vector<OnnxTensor>& inputs, const OnnxTensor& output) {
  Message graph;
  for (const OnnxNode& node : nodes) graph.text(1, node_proto(node));
  graph.text(2, "peer");
  for (const OnnxTensor& input : inputs) {
    if (input.data != nullptr) {
      graph.text(5, tensor_proto(input));
    } else {
      graph.text(11, value_info_proto(input));
    }
  }
  graph.text(12, value_info_proto(output));
  constexpr std::int64_t kIrVersion = 8;  // the one that goes with opset 17
  const std::string opset = Message().text(1, "").integer(2, 17).bytes();
  return Message().integer(1, kIrVersion).text(7, graph.bytes()).text(8, opset).bytes();
}

}  // namespace tessera::peers
