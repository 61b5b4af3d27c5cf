// Bytes -> Model.
#include <climits>
#include <filesystem>

#include <google/protobuf/io/coded_stream.h>

#include "tessera/frontend/onnx/integer_products.h"
#include "tessera/frontend/onnx/model.h"
#include "tessera/frontend/onnx/model_files.h"
#include "tessera/frontend/onnx/payloads.h"
#include "tessera/frontend/onnx/tensor_io.h"
#include "tessera/support/mapped_file.h"

namespace tessera::onnx {
namespace {

namespace pb = ::tessera_onnx;

// Messages nested this deep: 32 bodies (If, Loop, Scan) inside each other.
constexpr int kMaxNesting = 100;

Result<void> check_size(std::string_view bytes) {
  if (bytes.size() <= INT_MAX) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "{} bytes are more than an ONNX file can hold (2 GB); large tensors belong "
                    "into external data",
                    bytes.size());
}

template <class Message>
Result<void> parse_bytes(std::string_view bytes, const char* what, Message& message) {
  TESSERA_DO(check_size(bytes));
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetTotalBytesLimit(INT_MAX);
  stream.SetRecursionLimit(kMaxNesting);
  if (!message.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    if (bytes.starts_with("PK\x03\x04")) {
      return make_error(ErrorCode::kInvalidArgument,
                        "not {} but an archive, as PyTorch saves them: export the model with "
                        "torch.onnx.export",
                        what);
    }
    return make_error(ErrorCode::kInvalidArgument,
                      "not {}: truncated, damaged or nested more than {} deep", what, kMaxNesting);
  }
  return {};
}

std::string read_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

// Nodes and functions of our own domain come from rewriting only: what they promise of their
// operands is not checked.
Result<void> check_domain(const std::string& domain) {
  if (domain != kOwnDomain) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "the domain '{}' is reserved: no file may use its operators", kOwnDomain);
}

class Reader {
 public:
  explicit Reader(const std::string& folder, Reading reading = Reading::kValues)
      : files_(folder), reading_(reading) {}
  // `bytes`: the file of the model.
  Result<Model> model(TensorBytes bytes);
  const TensorFiles& files() const { return files_; }

 private:
  Result<Model> model(const pb::ModelProto& proto);
  // `reading` is of the initializers and of Constant nodes.
  Result<Graph> graph(const pb::GraphProto& proto, Reading reading = Reading::kValues);
  Result<Node> node(const pb::NodeProto& proto, Reading constants = Reading::kValues);
  Result<Attribute> attribute(const pb::AttributeProto& proto, Reading reading = Reading::kValues);
  Result<AttributeValue> value(const pb::AttributeProto& proto, Reading reading);
  Result<AttributeValue> tensors(const pb::AttributeProto& proto);
  Result<Function> function(const pb::FunctionProto& proto);

  TensorFiles files_;
  Reading reading_;
};

// AttributeProto.type; files of IR version 1 lack it, there the field that is present tells.
enum AttributeType {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kSparseTensor = 11,
};

int type_of(const pb::AttributeProto& a) {
  if (a.type() != kUndefined) return a.type();
  if (a.has_f()) return kFloat;
  if (a.has_i()) return kInt;
  if (a.has_s()) return kString;
  if (a.has_t()) return kTensor;
  if (a.has_g()) return kGraph;
  if (a.floats_size() > 0) return kFloats;
  if (a.strings_size() > 0) return kStrings;
  if (a.tensors_size() > 0) return kTensors;
  if (a.has_sparse_tensor()) return kSparseTensor;
  return kInts;
}

std::vector<std::string> strings(const google::protobuf::RepeatedPtrField<std::string>& field) {
  return {field.begin(), field.end()};
}

AttributeValue from_any(AnyTensor tensor) {
  if (auto* host = std::get_if<HostTensor>(&tensor)) return std::move(*host);
  return std::get<ForeignTensor>(std::move(tensor));
}

ValueInfo read_value_info(const pb::ValueInfoProto& proto) {
  ValueInfo info;
  info.name = proto.name();
  const pb::TypeProto& type = proto.type();
  if (!type.has_tensor_type()) {
    info.type = type.has_sequence_type()        ? "sequence"
                : type.has_map_type()           ? "map"
                : type.has_sparse_tensor_type() ? "sparse tensor"
                : type.has_optional_type()      ? "optional"
                                                : "undefined";
    return info;
  }
  info.type = element_type_name(type.tensor_type().elem_type());
  info.has_shape = type.tensor_type().has_shape();
  for (const auto& dim : type.tensor_type().shape().dim()) {
    Dim d;
    if (dim.has_dim_value() && dim.dim_value() >= 0) d.size = dim.dim_value();
    // Paddle writes "?" for every size that it does not know: that names none.
    if (dim.has_dim_param() && dim.dim_param() != "?") d.symbol = dim.dim_param();
    info.dims.push_back(std::move(d));
  }
  return info;
}

template <class Field>
std::map<std::string, std::int64_t> read_opsets(const Field& field) {
  std::map<std::string, std::int64_t> opsets;
  for (const auto& opset : field) opsets[read_domain(opset.domain())] = opset.version();
  return opsets;
}

Result<AttributeValue> Reader::tensors(const pb::AttributeProto& proto) {
  std::vector<HostTensor> list;
  for (const auto& tensor : proto.tensors()) {
    TESSERA_TRY(AnyTensor any, read_tensor(tensor, files_));
    if (auto* foreign = std::get_if<ForeignTensor>(&any)) return AttributeValue(*foreign);
    list.push_back(std::get<HostTensor>(std::move(any)));
  }
  return AttributeValue(std::move(list));
}

Result<AttributeValue> Reader::value(const pb::AttributeProto& proto, Reading reading) {
  switch (type_of(proto)) {
    case kFloat:
      return AttributeValue(proto.f());
    case kInt:
      return AttributeValue(std::int64_t{proto.i()});
    case kString:
      return AttributeValue(proto.s());
    case kTensor: {
      TESSERA_TRY(AnyTensor any, read_tensor(proto.t(), files_, reading));
      return from_any(std::move(any));
    }
    case kSparseTensor: {
      TESSERA_TRY(AnyTensor any, read_sparse(proto.sparse_tensor(), files_));
      return from_any(std::move(any));
    }
    case kGraph: {
      TESSERA_TRY(Graph body, graph(proto.g()));
      return AttributeValue(std::make_shared<const Graph>(std::move(body)));
    }
    case kFloats:
      return AttributeValue(std::vector<float>(proto.floats().begin(), proto.floats().end()));
    case kInts:
      return AttributeValue(std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end()));
    case kStrings:
      return AttributeValue(strings(proto.strings()));
    case kTensors:
      return tensors(proto);
    default:
      return AttributeValue(ForeignTensor{fmt::format("attribute type {}", proto.type())});
  }
}

Result<Attribute> Reader::attribute(const pb::AttributeProto& proto, Reading reading) {
  Attribute a;
  a.name = proto.name();
  a.ref = proto.ref_attr_name();
  auto read = value(proto, reading);
  if (!read.ok()) return read.error().with_context(fmt::format("attribute '{}'", a.name));
  a.value = std::move(read).value();
  return a;
}

Result<Node> Reader::node(const pb::NodeProto& proto, Reading constants) {
  Node n;
  n.name = proto.name();
  n.op_type = proto.op_type();
  n.domain = read_domain(proto.domain());
  n.overload = proto.overload();
  n.inputs = strings(proto.input());
  n.outputs = strings(proto.output());
  const auto context = [&] { return fmt::format("node '{}' ({})", n.name, n.op_type); };
  if (const auto known = check_domain(n.domain); !known.ok()) {
    return known.error().with_context(context());
  }
  const Reading reading = is_constant(n) ? constants : Reading::kValues;
  for (const auto& a : proto.attribute()) {
    auto read = attribute(a, reading);
    if (!read.ok()) return read.error().with_context(context());
    n.attributes.push_back(std::move(read).value());
  }
  return n;
}

Result<Graph> Reader::graph(const pb::GraphProto& proto, Reading reading) {
  Graph g;
  g.name = proto.name();
  for (const auto& n : proto.node()) {
    TESSERA_TRY(Node read, node(n, reading));
    g.nodes.push_back(std::move(read));
  }
  for (const auto& t : proto.initializer()) {
    TESSERA_TRY(AnyTensor any, read_tensor(t, files_, reading));
    g.initializers.push_back({t.name(), std::move(any)});
  }
  for (const auto& t : proto.sparse_initializer()) {
    TESSERA_TRY(AnyTensor any, read_sparse(t, files_));
    g.initializers.push_back({t.values().name(), std::move(any)});
  }
  for (const auto& v : proto.input()) g.inputs.push_back(read_value_info(v));
  for (const auto& v : proto.output()) g.outputs.push_back(read_value_info(v));
  return g;
}

Result<Function> Reader::function(const pb::FunctionProto& proto) {
  Function f;
  f.domain = read_domain(proto.domain());
  TESSERA_DO(check_domain(f.domain));
  f.name = proto.name();
  f.overload = proto.overload();
  f.inputs = strings(proto.input());
  f.outputs = strings(proto.output());
  f.attributes = strings(proto.attribute());
  f.opsets = read_opsets(proto.opset_import());
  for (const auto& a : proto.attribute_proto()) {
    TESSERA_TRY(Attribute read, attribute(a));
    f.default_attributes.push_back(std::move(read));
  }
  for (const auto& n : proto.node()) {
    TESSERA_TRY(Node read, node(n));
    f.nodes.push_back(std::move(read));
  }
  return f;
}

Result<Model> Reader::model(const pb::ModelProto& proto) {
  // Protobuf accepts nearly any short bytes; these two tell a model from something else.
  if (!proto.has_graph() || (!proto.has_ir_version() && proto.opset_import_size() == 0)) {
    return make_error(ErrorCode::kInvalidArgument, "not an ONNX model: it has no graph");
  }
  Model m;
  m.ir_version = proto.ir_version();
  m.producer = proto.producer_name();
  m.opsets = read_opsets(proto.opset_import());
  if (m.opsets.empty()) m.opsets[""] = 1;  // IR versions 1 and 2
  TESSERA_TRY(m.graph, graph(proto.graph(), reading_));
  for (const auto& f : proto.functions()) {
    auto read = function(f);
    if (!read.ok()) return read.error().with_context(fmt::format("function '{}'", f.name()));
    m.functions.push_back(std::move(read).value());
  }
  return m;
}

Result<Model> Reader::model(TensorBytes bytes) {
  pb::ModelProto proto;
  TESSERA_DO(check_size(bytes.bytes));
  const std::optional<std::string> rest = without_payloads(bytes.bytes);
  TESSERA_DO(parse_bytes(rest ? *rest : bytes.bytes, "an ONNX model", proto));
  if (rest) files_.set_model(std::move(bytes));
  return model(proto);
}

Result<Model> load(const std::string& path, Reading reading, std::vector<std::string>* beside) {
  TESSERA_TRY(MappedFile mapped, MappedFile::open(path));
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  Reader reader(folder, reading);
  auto model = reader.model({file->bytes(), file});
  if (!model.ok()) return model.error().with_context(path);
  for (const std::string& name : reader.files().names()) beside->push_back(folder + "/" + name);
  return model;
}

}  // namespace

Result<Model> parse_model(std::string_view bytes, const std::string& folder) {
  return Reader(folder).model({bytes, nullptr});
}

Result<Model> load_model_files(const std::string& path, std::vector<std::string>* beside) {
  return load(path, Reading::kValues, beside);
}

Result<Model> load_model(const std::string& path) {
  std::vector<std::string> beside;
  return load(path, Reading::kValues, &beside);
}

Result<Model> load_outline(const std::string& path) {
  std::vector<std::string> beside;
  return load(path, Reading::kOutline, &beside);
}

Result<HostTensor> parse_tensor(std::string_view bytes) {
  pb::TensorProto proto;
  TESSERA_DO(parse_bytes(bytes, "an ONNX tensor", proto));
  TensorFiles files("");
  TESSERA_TRY(AnyTensor any, read_tensor(proto, files));
  if (const auto* foreign = std::get_if<ForeignTensor>(&any)) {
    return make_error(ErrorCode::kUnsupported, "tensor '{}' has elements of type {}", proto.name(),
                      foreign->type);
  }
  return std::get<HostTensor>(std::move(any));
}

}  // namespace tessera::onnx
