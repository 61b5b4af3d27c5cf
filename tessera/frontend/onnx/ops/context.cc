// Attributes and constant inputs of the node being imported.
#include "tessera/frontend/onnx/ops/op.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

Error wrong_kind(std::string_view name, const char* wanted) {
  return invalid("attribute '{}' is not {}", name, wanted);
}

// The attribute as `Stored`, the given value when it is absent.
template <class Stored, class Out>
Result<Out> read(const Node& node, std::string_view name, const char* wanted,
                 const std::optional<Out>& absent) {
  const Attribute* attribute = node.find(name);
  if (attribute == nullptr) {
    if (absent) return *absent;
    return invalid("attribute '{}' is missing", name);
  }
  const auto* value = std::get_if<Stored>(&attribute->value);
  if (value == nullptr) return wrong_kind(name, wanted);
  if constexpr (std::is_same_v<Stored, Out>) {
    return *value;
  } else if constexpr (std::is_arithmetic_v<Out>) {
    return static_cast<Out>(*value);
  } else {
    return Out(value->begin(), value->end());
  }
}

}  // namespace

Result<std::int64_t> Context::integer(std::string_view name,
                                      std::optional<std::int64_t> absent) const {
  return read<std::int64_t>(node, name, "an integer", absent);
}

Result<double> Context::number(std::string_view name, std::optional<double> absent) const {
  return read<float>(node, name, "a float", absent);
}

Result<std::string> Context::word(std::string_view name, std::optional<std::string> absent) const {
  return read<std::string>(node, name, "a string", absent);
}

Result<std::vector<std::int64_t>> Context::integers(
    std::string_view name, std::optional<std::vector<std::int64_t>> absent) const {
  return read<std::vector<std::int64_t>>(node, name, "a list of integers", absent);
}

Result<std::vector<double>> Context::numbers(std::string_view name,
                                             std::optional<std::vector<double>> absent) const {
  return read<std::vector<float>>(node, name, "a list of floats", absent);
}

Result<HostTensor> Context::tensor(std::string_view name) const {
  const Attribute* attribute = node.find(name);
  if (attribute != nullptr) {
    if (const auto* foreign = std::get_if<ForeignTensor>(&attribute->value)) {
      return make_error(ErrorCode::kUnsupported, "attribute '{}' has elements of type {}", name,
                        foreign->type);
    }
  }
  return read<HostTensor, HostTensor>(node, name, "a tensor", std::nullopt);
}

Result<const Graph*> Context::body(std::string_view name) const {
  using Body = std::shared_ptr<const Graph>;
  TESSERA_TRY(const Body body, read<Body, Body>(node, name, "a graph", std::nullopt));
  return body.get();  // the node keeps it alive
}

Result<const HostTensor*> Context::constant(std::size_t i, std::string_view what) const {
  if (!has(i)) return invalid("{} (input {}) is missing", what, i);
  const HostTensor* value = b.constant_of(inputs[i]);
  if (value == nullptr) {
    return make_error(ErrorCode::kDataDependent, "{} (input '{}') follows from data", what,
                      node.inputs[i]);
  }
  return value;
}

Result<std::vector<std::int64_t>> Context::constant_integers(std::size_t i,
                                                             std::string_view what) const {
  TESSERA_TRY(const HostTensor* value, constant(i, what));
  if (!is_int(value->dtype()) || value->shape().size() > 1) {
    return invalid("{} (input '{}') must be a list of integers, not {}", what, node.inputs[i],
                   graph::to_text(graph::TensorType{value->dtype(), value->shape()}));
  }
  std::vector<std::int64_t> list(static_cast<std::size_t>(value->size()));
  for (std::size_t k = 0; k < list.size(); ++k) {
    list[k] = value->get_int(static_cast<std::int64_t>(k));
  }
  return list;
}

Result<std::int64_t> Context::axis(std::int64_t axis, std::int64_t rank) const {
  if (axis < -rank || axis >= rank) return invalid("axis {} is outside rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace tessera::onnx
