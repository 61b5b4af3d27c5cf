#include "tessera/frontend/onnx/backend_values.h"

#include <climits>
#include <set>

#include "tessera/frontend/onnx/tensor_io.h"

namespace tessera::onnx {
namespace {

namespace pb = ::tessera_onnx;
using Kind = BackendValue::Kind;

template <class Message>
Result<Message> parse(std::string_view bytes, const std::string& type) {
  Message message;
  if (bytes.size() > INT_MAX ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return make_error(ErrorCode::kInvalidArgument, "not an ONNX {}: truncated or damaged", type);
  }
  return message;
}

Result<HostTensor> to_tensor(const pb::TensorProto& proto) {
  TensorFiles files("");
  TESSERA_TRY(AnyTensor any, read_tensor(proto, files));
  if (const auto* foreign = std::get_if<ForeignTensor>(&any)) {
    return make_error(ErrorCode::kUnsupported, "elements of type {}", foreign->type);
  }
  return std::get<HostTensor>(std::move(any));
}

Result<BackendValue> to_sequence(const pb::SequenceProto& proto) {
  constexpr int kTensors = 1;  // SequenceProto.DataType
  if (proto.elem_type() != kTensors && proto.elem_type() != 0) {
    return make_error(ErrorCode::kUnsupported, "a sequence of other things than tensors");
  }
  BackendValue value{Kind::kSequence, {}};
  for (const pb::TensorProto& element : proto.tensor_values()) {
    TESSERA_TRY(HostTensor tensor, to_tensor(element));
    value.tensors.push_back(std::move(tensor));
  }
  return value;
}

Result<BackendValue> to_optional(const pb::OptionalProto& proto) {
  if (proto.has_sequence_value()) return to_sequence(proto.sequence_value());
  if (!proto.has_tensor_value()) return BackendValue{Kind::kAbsent, {}};
  TESSERA_TRY(HostTensor tensor, to_tensor(proto.tensor_value()));
  return BackendValue{Kind::kTensor, {std::move(tensor)}};
}

Node make_node(const char* op, std::vector<std::string> inputs, const std::string& output) {
  Node node;
  node.op_type = op;
  node.inputs = std::move(inputs);
  node.outputs = {output};
  return node;
}

ValueInfo tensor_info(const std::string& name, const HostTensor& tensor) {
  ValueInfo info{name, std::string(to_text(tensor.dtype())), true, {}};
  for (const std::int64_t d : tensor.shape()) info.dims.push_back({d, ""});
  return info;
}

HostTensor scalar(std::size_t v) {
  HostTensor t(DType::kI64, {});
  t.set_int(0, static_cast<std::int64_t>(v));
  return t;
}

std::string element_name(const std::string& name, std::size_t i) {
  return fmt::format("{}[{}]", name, i);
}

// Adds the node that makes `info` of tensors, which become inputs.
void spell_input(Graph& graph, const ValueInfo& info, const BackendValue& value) {
  if (value.kind == Kind::kTensor) {
    graph.inputs.push_back(tensor_info(info.name, value.tensors[0]));
    return;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < value.tensors.size(); ++i) {
    names.push_back(element_name(info.name, i));
    graph.inputs.push_back(tensor_info(names.back(), value.tensors[i]));
  }
  const char* op = value.kind == Kind::kAbsent ? "Optional"
                   : names.empty()             ? "SequenceEmpty"
                                               : "SequenceConstruct";
  graph.nodes.insert(graph.nodes.begin(), make_node(op, std::move(names), info.name));
}

// Adds the nodes that take the sequence `info` apart; their results become outputs.
void spell_output(Graph& graph, const ValueInfo& info, const BackendValue& value) {
  const auto add = [&](Node node) {
    graph.outputs.push_back({node.outputs[0], "undefined", false, {}});
    graph.nodes.push_back(std::move(node));
  };
  add(make_node("SequenceLength", {info.name}, info.name + ".length"));
  for (std::size_t i = 0; i < value.tensors.size(); ++i) {
    const std::string at = fmt::format("{}.{}", info.name, i);
    graph.initializers.push_back({at, scalar(i)});
    add(make_node("SequenceAt", {info.name, at}, element_name(info.name, i)));
  }
}

}  // namespace

bool is_backend_type(const std::string& type) {
  return dtype_from_text(type) || type == "sequence" || type == "optional";
}

Result<BackendValue> parse_backend_value(std::string_view bytes, const std::string& type) {
  if (type == "sequence") {
    TESSERA_TRY(const pb::SequenceProto proto, parse<pb::SequenceProto>(bytes, type));
    return to_sequence(proto);
  }
  if (type == "optional") {
    TESSERA_TRY(const pb::OptionalProto proto, parse<pb::OptionalProto>(bytes, type));
    return to_optional(proto);
  }
  TESSERA_TRY(HostTensor tensor, parse_tensor(bytes));
  return BackendValue{Kind::kTensor, {std::move(tensor)}};
}

std::vector<HostTensor> input_tensors(const std::vector<BackendValue>& inputs) {
  std::vector<HostTensor> all;
  for (const BackendValue& v : inputs) all.insert(all.end(), v.tensors.begin(), v.tensors.end());
  return all;
}

std::vector<HostTensor> output_tensors(const std::vector<BackendValue>& outputs) {
  std::vector<HostTensor> all;
  for (const BackendValue& v : outputs) {
    if (v.kind == Kind::kSequence) all.push_back(scalar(v.tensors.size()));
    all.insert(all.end(), v.tensors.begin(), v.tensors.end());
  }
  return all;
}

Result<Model> with_tensor_border(const Model& model, const std::vector<BackendValue>& inputs,
                                 const std::vector<BackendValue>& outputs) {
  Model out = model;
  Graph& graph = out.graph;
  std::set<std::string> initialized;
  for (const Initializer& i : graph.initializers) initialized.insert(i.name);
  graph.inputs.clear();
  std::size_t next = 0;
  for (const ValueInfo& info : model.graph.inputs) {
    const bool given = initialized.count(info.name) == 0 && next < inputs.size();
    const BackendValue* value = given ? &inputs[next++] : nullptr;
    if (value == nullptr || dtype_from_text(info.type)) {
      graph.inputs.push_back(info);
    } else {
      spell_input(graph, info, *value);
    }
  }
  graph.outputs.clear();
  for (std::size_t i = 0; i < model.graph.outputs.size(); ++i) {
    const ValueInfo& info = model.graph.outputs[i];
    if (i < outputs.size() && outputs[i].kind == Kind::kAbsent) {
      return make_error(ErrorCode::kUnsupported, "output '{}' is absent", info.name);
    }
    if (i < outputs.size() && outputs[i].kind == Kind::kSequence) {
      spell_output(graph, info, outputs[i]);
    } else {
      graph.outputs.push_back(info);
    }
  }
  return out;
}

}  // namespace tessera::onnx
