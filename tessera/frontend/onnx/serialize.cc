// Model -> bytes.
#include <array>
#include <climits>
#include <filesystem>
#include <fstream>

#include "tessera/frontend/onnx/integer_products.h"
#include "tessera/frontend/onnx/model.h"
#include "tessera/frontend/onnx/narrow_types.h"
#include "tessera/frontend/onnx/tensor_io.h"
#include "tessera/support/files.h"

namespace tessera::onnx {
namespace {

namespace pb = ::tessera_onnx;

constexpr std::size_t kSmallTensor = 1024;   // bytes; stays in the file
constexpr std::int64_t kDataAlignment = 64;  // of tensors in the external file

// Where large tensors go when they do not stay in the model.
class Writer {
 public:
  // `data` null: everything stays in the model.
  Writer(std::ostream* data, std::string location) : data_(data), location_(std::move(location)) {}

  Result<void> model(const Model& m, pb::ModelProto& to);

 private:
  Result<void> graph(const Graph& g, pb::GraphProto& to);
  Result<void> node(const Node& n, pb::NodeProto& to);
  Result<void> attribute(const Attribute& a, pb::AttributeProto& to);
  void tensor(const HostTensor& t, const std::string& name, pb::TensorProto& to);
  Result<void> tensor(const ForeignTensor& t, const std::string& name, pb::TensorProto& to);
  void bytes(std::string_view bytes, pb::TensorProto& to);
  Result<void> function(const Function& f, pb::FunctionProto& to);

  std::ostream* data_;
  std::string location_;
  std::int64_t offset_ = 0;
};

Error cannot_write(const std::string& name, const std::string& type) {
  return make_error(ErrorCode::kUnsupported, "cannot write '{}': type {}", name, type);
}

void add_entry(pb::TensorProto& to, const char* key, const std::string& value) {
  auto* entry = to.add_external_data();
  entry->set_key(key);
  entry->set_value(value);
}

template <class Opsets, class To>
void write_opsets(const Opsets& opsets, To& to) {
  for (const auto& [domain, version] : opsets) {
    auto* opset = to.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(version);
  }
}

Result<void> write_value_info(const ValueInfo& info, pb::ValueInfoProto& to) {
  to.set_name(info.name);
  if (info.type == "undefined" || info.type.empty()) return {};
  const int type = element_type_number(info.type);
  if (type == 0) return cannot_write(info.name, info.type);
  auto* tensor = to.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  if (!info.has_shape) return {};
  auto* shape = tensor->mutable_shape();
  for (const Dim& d : info.dims) {
    auto* dim = shape->add_dim();
    if (d.size >= 0) {
      dim->set_dim_value(d.size);
    } else if (!d.symbol.empty()) {
      dim->set_dim_param(d.symbol);
    }
  }
  return {};
}

void Writer::tensor(const HostTensor& t, const std::string& name, pb::TensorProto& to) {
  to.set_name(name);
  to.set_data_type(element_type_number(t.dtype()));
  for (const std::int64_t d : t.shape()) to.add_dims(d);
  bytes({t.as<char>(), t.bytes()}, to);
}

// The narrow type whose integers the tensor holds; null where it holds no values, or floats.
const NarrowType* written_as(const ForeignTensor& t) {
  const NarrowType* type = find_narrow_type(t.type);
  return type && t.widened && t.widened->dtype() == type->wide && is_int(type->wide) ? type
                                                                                     : nullptr;
}

Result<void> Writer::tensor(const ForeignTensor& t, const std::string& name, pb::TensorProto& to) {
  const NarrowType* type = written_as(t);
  if (!type) return cannot_write(name, t.type);
  to.set_name(name);
  to.set_data_type(element_type_number(t.type));
  for (const std::int64_t d : t.widened->shape()) to.add_dims(d);
  bytes(pack(*type, *t.widened), to);
  return {};
}

void Writer::bytes(std::string_view bytes, pb::TensorProto& to) {
  if (data_ == nullptr || bytes.size() < kSmallTensor) {
    to.set_raw_data(bytes.data(), bytes.size());
    return;
  }
  to.set_data_location(1);
  const std::int64_t padding = (kDataAlignment - offset_ % kDataAlignment) % kDataAlignment;
  *data_ << std::string(static_cast<std::size_t>(padding), '\0');
  offset_ += padding;
  add_entry(to, "location", location_);
  add_entry(to, "offset", std::to_string(offset_));
  add_entry(to, "length", std::to_string(bytes.size()));
  data_->write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  offset_ += static_cast<std::int64_t>(bytes.size());
}

Result<void> Writer::attribute(const Attribute& a, pb::AttributeProto& to) {
  // AttributeProto.type by alternative of AttributeValue.
  constexpr std::array<int, 10> kTypes = {2, 1, 3, 4, 4, 5, 7, 6, 8, 9};
  to.set_name(a.name);
  to.set_type(kTypes[a.value.index()]);
  if (!a.ref.empty()) {
    to.set_ref_attr_name(a.ref);
  } else if (const auto* i = std::get_if<std::int64_t>(&a.value)) {
    to.set_i(*i);
  } else if (const auto* f = std::get_if<float>(&a.value)) {
    to.set_f(*f);
  } else if (const auto* s = std::get_if<std::string>(&a.value)) {
    to.set_s(*s);
  } else if (const auto* t = std::get_if<HostTensor>(&a.value)) {
    tensor(*t, "", *to.mutable_t());
  } else if (const auto* g = std::get_if<std::shared_ptr<const Graph>>(&a.value)) {
    return graph(**g, *to.mutable_g());
  } else if (const auto* floats = std::get_if<std::vector<float>>(&a.value)) {
    to.mutable_floats()->Add(floats->begin(), floats->end());
  } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&a.value)) {
    to.mutable_ints()->Add(ints->begin(), ints->end());
  } else if (const auto* words = std::get_if<std::vector<std::string>>(&a.value)) {
    for (const std::string& v : *words) to.add_strings(v);
  } else if (const auto* list = std::get_if<std::vector<HostTensor>>(&a.value)) {
    for (const HostTensor& v : *list) tensor(v, "", *to.add_tensors());
  } else {
    return tensor(std::get<ForeignTensor>(a.value), a.name, *to.mutable_t());
  }
  return {};
}

Result<void> Writer::node(const Node& n, pb::NodeProto& to) {
  for (const std::string& v : n.inputs) to.add_input(v);
  for (const std::string& v : n.outputs) to.add_output(v);
  if (!n.name.empty()) to.set_name(n.name);
  to.set_op_type(n.op_type);
  if (!n.domain.empty()) to.set_domain(n.domain);
  if (!n.overload.empty()) to.set_overload(n.overload);
  for (const Attribute& a : n.attributes) TESSERA_DO(attribute(a, *to.add_attribute()));
  return {};
}

Result<void> Writer::graph(const Graph& g, pb::GraphProto& to) {
  to.set_name(g.name);
  for (const Node& n : g.nodes) TESSERA_DO(node(n, *to.add_node()));
  for (const Initializer& i : g.initializers) {
    if (const auto* foreign = std::get_if<ForeignTensor>(&i.value)) {
      TESSERA_DO(tensor(*foreign, i.name, *to.add_initializer()));
    } else {
      tensor(std::get<HostTensor>(i.value), i.name, *to.add_initializer());
    }
  }
  for (const ValueInfo& v : g.inputs) TESSERA_DO(write_value_info(v, *to.add_input()));
  for (const ValueInfo& v : g.outputs) TESSERA_DO(write_value_info(v, *to.add_output()));
  return {};
}

Result<void> Writer::function(const Function& f, pb::FunctionProto& to) {
  to.set_domain(f.domain);
  to.set_name(f.name);
  if (!f.overload.empty()) to.set_overload(f.overload);
  for (const std::string& v : f.inputs) to.add_input(v);
  for (const std::string& v : f.outputs) to.add_output(v);
  for (const std::string& v : f.attributes) to.add_attribute(v);
  for (const Attribute& a : f.default_attributes) {
    TESSERA_DO(attribute(a, *to.add_attribute_proto()));
  }
  for (const Node& n : f.nodes) TESSERA_DO(node(n, *to.add_node()));
  write_opsets(f.opsets, to);
  return {};
}

Result<void> Writer::model(const Model& m, pb::ModelProto& to) {
  to.set_ir_version(m.ir_version);
  if (!m.producer.empty()) to.set_producer_name(m.producer);
  write_opsets(m.opsets, to);
  TESSERA_DO(graph(m.graph, *to.mutable_graph()));
  for (const Function& f : m.functions) TESSERA_DO(function(f, *to.add_functions()));
  return {};
}

std::int64_t tensor_bytes(const Graph& g);

std::int64_t tensor_bytes(const std::vector<Node>& nodes) {
  std::int64_t total = 0;
  for (const Node& n : nodes) {
    for (const Attribute& a : n.attributes) {
      if (const auto* t = std::get_if<HostTensor>(&a.value)) {
        total += static_cast<std::int64_t>(t->bytes());
      } else if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&a.value)) {
        total += tensor_bytes(**body);
      }
    }
  }
  return total;
}

std::int64_t tensor_bytes(const Graph& g) {
  std::int64_t total = tensor_bytes(g.nodes);
  for (const Initializer& i : g.initializers) {
    if (const auto* t = std::get_if<HostTensor>(&i.value)) {
      total += static_cast<std::int64_t>(t->bytes());
    } else if (const auto& foreign = std::get<ForeignTensor>(i.value); written_as(foreign)) {
      total +=
          static_cast<std::int64_t>(packed_bytes(*written_as(foreign), foreign.widened->size()));
    }
  }
  return total;
}

// An operator that no file may use; null: there is none.
const Node* own_node(const std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    if (node.domain == kOwnDomain) return &node;
    for (const Attribute& a : node.attributes) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&a.value);
      const Node* inner = body ? own_node((*body)->nodes) : nullptr;
      if (inner) return inner;
    }
  }
  return nullptr;
}

Result<std::string> to_bytes(const pb::ModelProto& proto) {
  if (proto.ByteSizeLong() > INT_MAX) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the model needs {} bytes, more than an ONNX file can hold (2 GB)",
                      proto.ByteSizeLong());
  }
  return proto.SerializeAsString();
}

// External data under a temporary name, gone again unless keep() is called.
class DataFile {
 public:
  explicit DataFile(std::string path)
      : path_(std::move(path)), out_(temporary(), std::ios::binary | std::ios::trunc) {}
  ~DataFile() {
    std::error_code ignored;
    std::filesystem::remove(temporary(), ignored);
  }
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  std::ofstream& out() { return out_; }

  Result<void> keep() {
    out_.close();
    std::error_code status;
    if (out_) std::filesystem::rename(temporary(), path_, status);
    if (out_ && !status) return {};
    return make_error(ErrorCode::kIo, "cannot write '{}'{}", path_,
                      status ? ": " + status.message() : "");
  }

 private:
  std::string temporary() const { return path_ + ".tmp"; }

  std::string path_;
  std::ofstream out_;
};

}  // namespace

Result<std::string> serialize_model(const Model& model) {
  pb::ModelProto proto;
  TESSERA_DO(Writer(nullptr, "").model(model, proto));
  return to_bytes(proto);
}

Result<std::string> serialize_tensor(const HostTensor& tensor, const std::string& name) {
  pb::TensorProto proto;
  write_tensor(tensor, name, proto);
  if (proto.ByteSizeLong() > INT_MAX) {
    return make_error(ErrorCode::kInvalidArgument, "tensor '{}' is larger than 2 GB", name);
  }
  return proto.SerializeAsString();
}

Result<void> save_model(const Model& model, const std::string& path, const SaveOptions& options) {
  if (const Node* own = own_node(model.graph.nodes)) {
    return make_error(ErrorCode::kUnsupported,
                      "cannot write '{}': ONNX has no {}, which models of other formats become",
                      path, own->op_type);
  }
  pb::ModelProto proto;
  if (tensor_bytes(model.graph) <= options.external_above) {
    TESSERA_DO(Writer(nullptr, "").model(model, proto));
    TESSERA_TRY(const std::string bytes, to_bytes(proto));
    return write_file(path, {bytes});
  }
  const std::string data_path = path + ".data";
  DataFile data(data_path);
  Writer writer(&data.out(), std::filesystem::path(data_path).filename().string());
  TESSERA_DO(writer.model(model, proto));
  TESSERA_TRY(const std::string bytes, to_bytes(proto));
  TESSERA_DO(data.keep());
  return write_file(path, {bytes});
}

}  // namespace tessera::onnx
