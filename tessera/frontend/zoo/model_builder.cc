#include "tessera/frontend/zoo/model_builder.h"

#include <algorithm>

#include "tessera/support/check.h"

namespace tessera::zoo {
namespace {

constexpr std::int64_t kMaxWeightBytes = std::int64_t{1} << 32;
constexpr std::int64_t kOpset = 17, kOpsetOfBF16 = 22;

}  // namespace

onnx::Attribute attr(std::string name, std::int64_t value) { return {std::move(name), value, {}}; }
onnx::Attribute attr(std::string name, int value) {
  return attr(std::move(name), static_cast<std::int64_t>(value));
}
onnx::Attribute attr(std::string name, double value) {
  return {std::move(name), static_cast<float>(value), {}};
}
onnx::Attribute attr(std::string name, std::vector<std::int64_t> value) {
  return {std::move(name), std::move(value), {}};
}
onnx::Attribute attr(std::string name, std::string value) {
  return {std::move(name), std::move(value), {}};
}
onnx::Attribute attr(std::string name, HostTensor value) {
  return {std::move(name), std::move(value), {}};
}

int onnx_number(DType float_type) {
  if (float_type == DType::kF32) return 1;
  return float_type == DType::kF16 ? 10 : 16;
}

ModelBuilder::ModelBuilder(std::string name, DType dtype, bool fill_weights)
    : dtype_(dtype), fill_weights_(fill_weights) {
  model_.opsets[""] = dtype == DType::kBF16 ? kOpsetOfBF16 : kOpset;
  model_.producer = "tessera";
  model_.graph.name = std::move(name);
}

void ModelBuilder::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

Value ModelBuilder::input(const std::string& name, DType dtype, Shape shape) {
  if (!accept(shape, dtype, name)) return placeholder(std::move(shape), dtype);
  onnx::ValueInfo info{.name = name, .type = to_text(dtype), .has_shape = true};
  for (const std::int64_t d : shape) info.dims.push_back({.size = d});
  model_.graph.inputs.push_back(std::move(info));
  return {.name = name, .shape = std::move(shape), .dtype = dtype};
}

void ModelBuilder::output(const Value& value, const std::string& name) {
  if (failed()) return;
  // The node that makes the value is asked to call it by the output's name.
  bool found = false;
  for (onnx::Node& node : model_.graph.nodes) {
    std::replace(node.inputs.begin(), node.inputs.end(), value.name, name);
    const auto at = std::find(node.outputs.begin(), node.outputs.end(), value.name);
    if (at == node.outputs.end()) continue;
    *at = name;
    found = true;
  }
  TESSERA_CHECK(found, "zoo: no node makes {}", value.name);
  onnx::ValueInfo info{.name = name, .type = to_text(value.dtype), .has_shape = true};
  for (const std::int64_t d : value.shape) info.dims.push_back({.size = d});
  model_.graph.outputs.push_back(std::move(info));
}

Value ModelBuilder::node(const std::string& op, const std::vector<Value>& inputs, Shape shape,
                         Attributes attributes, Moments moments, std::optional<DType> dtype) {
  std::vector<Value> made = nodes(op, inputs, {std::move(shape)}, std::move(attributes), moments);
  if (!dtype) return std::move(made[0]);
  if (!accept(made[0].shape, *dtype, op)) return placeholder(made[0].shape, *dtype);
  made[0].dtype = *dtype;
  return std::move(made[0]);
}

std::vector<Value> ModelBuilder::nodes(const std::string& op, const std::vector<Value>& inputs,
                                       const std::vector<Shape>& shapes, Attributes attributes,
                                       Moments moments) {
  const DType dtype = inputs.empty() ? dtype_ : inputs[0].dtype;
  const std::string name = unique(op);
  std::vector<Value> made;
  for (const Shape& shape : shapes) {
    if (!accept(shape, dtype, name)) {
      made.push_back(placeholder(shape, dtype));
      continue;
    }
    made.push_back({.name = fmt::format("{}_output_{}", name, made.size()),
                    .shape = shape,
                    .dtype = dtype,
                    .moments = moments});
  }
  if (failed()) return made;
  onnx::Node node{.name = name, .op_type = op, .attributes = std::move(attributes)};
  for (const Value& v : inputs) node.inputs.push_back(v.name);
  for (const Value& v : made) node.outputs.push_back(v.name);
  model_.graph.nodes.push_back(std::move(node));
  return made;
}

Value ModelBuilder::weight(const std::string& name, Shape shape, const Fill& fill) {
  if (!reserve(name, shape, dtype_)) return placeholder(std::move(shape), dtype_);
  HostTensor tensor(dtype_, std::move(shape));
  if (fill_weights_) fill_random(tensor, name, fill);
  Value value = initializer(name, std::move(tensor));
  value.moments = {.mean = fill.centre, .var = fill.half_width * fill.half_width / 3};
  return value;
}

bool ModelBuilder::reserve(const std::string& name, const Shape& shape, DType dtype) {
  if (!accept(shape, dtype, name)) return false;
  const std::int64_t bytes = elements(shape) * size_bytes(dtype);
  if (bytes > kMaxWeightBytes - weight_bytes_) {
    refuse("{}: the weights would exceed {} GiB", name, kMaxWeightBytes >> 30);
    return false;
  }
  weight_bytes_ += bytes;
  return true;
}

Value ModelBuilder::initializer(const std::string& name, HostTensor value) {
  Value made{.name = name, .shape = value.shape(), .dtype = value.dtype()};
  model_.graph.initializers.push_back({name, std::move(value)});
  return made;
}

Value ModelBuilder::ints(const std::vector<std::int64_t>& values) {
  HostTensor tensor(DType::kI64, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<std::int64_t>());
  return constant(std::move(tensor));
}

Value ModelBuilder::int_scalar(std::int64_t value) {
  HostTensor tensor(DType::kI64, {});
  tensor.set_int(0, value);
  return constant(std::move(tensor));
}

Value ModelBuilder::scalar(double value) {
  HostTensor tensor(dtype_, {});
  tensor.set_float(0, value);
  Value made = constant(std::move(tensor));
  made.moments = {.mean = value, .var = 0};
  return made;
}

Value ModelBuilder::constant(HostTensor value) {
  const DType dtype = value.dtype();
  const Shape shape = value.shape();
  return node("Constant", {}, shape, {attr("value", std::move(value))}, {}, dtype);
}

Result<onnx::Model> ModelBuilder::finish() {
  if (error_) return *error_;
  TESSERA_CHECK(!model_.graph.outputs.empty(), "zoo: {} has no output", model_.graph.name);
  return std::move(model_);
}

std::string ModelBuilder::unique(const std::string& op) {
  const std::string base = scope_.empty() ? "/" + op : fmt::format("/{}/{}", scope_, op);
  const int used = used_names_[base]++;
  return used == 0 ? base : fmt::format("{}_{}", base, used);
}

Value ModelBuilder::placeholder(Shape shape, DType dtype) const {
  for (std::int64_t& d : shape) d = 1;
  return {.name = "failed", .shape = std::move(shape), .dtype = dtype};
}

bool ModelBuilder::accept(const Shape& shape, DType dtype, const std::string& what) {
  if (failed()) return false;
  if (auto count = checked_elements(shape, dtype); !count.ok()) {
    fail(count.error().with_context(what));
    return false;
  }
  return true;
}

}  // namespace tessera::zoo
