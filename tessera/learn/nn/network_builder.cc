#include "tessera/learn/nn/network_builder.h"

#include <algorithm>

namespace tessera::nn {

using graph::kNoValue;

namespace {

// Added to variances: rows that are all equal have none.
constexpr double kEpsilon = 1e-5;

}  // namespace

NetworkBuilder::NetworkBuilder(const std::string& name, const InstanceShape& shape)
    : graph_(name), shape_(shape) {}

std::int64_t NetworkBuilder::width(ValueId x) const {
  return x == kNoValue || graph_.shape(x).empty() ? 0 : graph_.shape(x).back();
}

void NetworkBuilder::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

ValueId NetworkBuilder::node(const char* op, const std::vector<ValueId>& inputs,
                             graph::Attrs attrs) {
  if (error_) return kNoValue;
  auto value = graph_.add(op, inputs, std::move(attrs));
  if (value.ok()) return *value;
  fail(value.error().with_context(op));
  return kNoValue;
}

ValueId NetworkBuilder::input(const std::string& name, const Shape& shape) {
  if (const auto count = checked_elements(shape, DType::kF32); !count.ok()) {
    fail(count.error().with_context(name));
  }
  if (error_) return kNoValue;
  return graph_.input(name, {DType::kF32, shape});
}

ValueId NetworkBuilder::parameter(const std::string& name, const Shape& shape, Init init,
                                  std::int64_t fan_in) {
  const bool known = std::any_of(parameters_.begin(), parameters_.end(),
                                 [&](const Parameter& p) { return p.name == name; });
  if (known) refuse("parameter {} is defined twice", name);
  const ValueId value = input(name, shape);
  if (value != kNoValue) parameters_.push_back({name, shape, init, fan_in});
  return value;
}

ValueId NetworkBuilder::scalar(double value) { return graph_.scalar(DType::kF32, value); }

ValueId NetworkBuilder::constant(HostTensor tensor) { return graph_.constant(std::move(tensor)); }

Linear NetworkBuilder::linear_layer(const std::string& name, std::int64_t in, std::int64_t out,
                                    bool bias) {
  Linear layer{.in = in, .out = out};
  layer.weight = parameter(name + ".weight", {in, out}, Init::kUniformFanIn, in);
  if (bias) layer.bias = parameter(name + ".bias", {out}, Init::kUniformFanIn, in);
  return layer;
}

ValueId NetworkBuilder::apply(const Linear& layer, ValueId x) {
  if (error_) return kNoValue;
  const bool flat = graph_.shape(x).size() == 2;
  const ValueId y = contract(flat ? "mk,kn->mn" : "brk,kn->brn", x, layer.weight);
  return layer.bias == kNoValue ? y : add(y, layer.bias);
}

ValueId NetworkBuilder::linear(ValueId x, std::int64_t out, const std::string& name, bool bias) {
  return apply(linear_layer(name, width(x), out, bias), x);
}

Norm NetworkBuilder::norm_layer(const std::string& name, std::int64_t width) {
  return {.scale = parameter(name + ".scale", {width}, Init::kOne, width),
          .shift = parameter(name + ".shift", {width}, Init::kZero, width)};
}

ValueId NetworkBuilder::apply(const Norm& norm, ValueId x) {
  if (error_) return kNoValue;
  const auto axis = static_cast<std::int64_t>(graph_.shape(x).size()) - 1;
  return node("layernorm", {x, norm.scale, norm.shift}, {{"axis", axis}, {"epsilon", kEpsilon}});
}

ValueId NetworkBuilder::layer_norm(ValueId x, const std::string& name) {
  return error_ ? kNoValue : apply(norm_layer(name, width(x)), x);
}

ValueId NetworkBuilder::softmax(ValueId x) {
  if (error_) return kNoValue;
  return softmax(x, static_cast<std::int64_t>(graph_.shape(x).size()) - 1);
}

ValueId NetworkBuilder::softmax(ValueId x, std::int64_t axis) {
  return node("softmax", {x}, {{"axis", axis}});
}

ValueId NetworkBuilder::sum(ValueId x, std::int64_t axis, bool keep) {
  return node("reduce", {x},
              {{"kind", std::string("sum")},
               {"axes", std::vector<std::int64_t>{axis}},
               {"keepdims", std::int64_t{keep}}});
}

ValueId NetworkBuilder::contract(const std::string& labels, ValueId a, ValueId b) {
  const std::size_t comma = labels.find(','), arrow = labels.find("->");
  TESSERA_CHECK(comma < arrow && arrow != std::string::npos, "nn: labels {}", labels);
  return node("contract", {a, b},
              {{"a", labels.substr(0, comma)},
               {"b", labels.substr(comma + 1, arrow - comma - 1)},
               {"out", labels.substr(arrow + 2)}});
}

ValueId NetworkBuilder::reshape(ValueId x, const Shape& shape) {
  if (error_ || graph_.shape(x) == shape) return x;
  return node("reshape", {x}, {{"shape", shape}});
}

ValueId NetworkBuilder::slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t size) {
  if (error_) return kNoValue;
  Shape sizes = graph_.shape(x), starts(sizes.size(), 0);
  TESSERA_CHECK(axis >= 0 && static_cast<std::size_t>(axis) < sizes.size(), "nn: slice of axis {}",
                axis);
  const auto at = static_cast<std::size_t>(axis);
  if (begin == 0 && size == sizes[at]) return x;
  starts[at] = begin;
  sizes[at] = size;
  const Shape steps(sizes.size(), 1);
  return node("slice", {x}, {{"starts", starts}, {"steps", steps}, {"sizes", sizes}});
}

ValueId NetworkBuilder::concat(const std::vector<ValueId>& parts, std::int64_t axis) {
  return node("concat", parts, {{"axis", axis}});
}

ValueId NetworkBuilder::expand(ValueId x, const Shape& shape) {
  return node("expand", {x}, {{"shape", shape}});
}

ValueId NetworkBuilder::flat(ValueId x) { return reshape(x, {batch() * rows(), width(x)}); }

ValueId NetworkBuilder::by_row(ValueId x) { return reshape(x, {batch(), rows(), width(x)}); }

Result<Network> NetworkBuilder::finish(
    Rows rows, const std::vector<std::pair<std::string, ValueId>>& outputs) {
  if (error_) return *error_;
  std::vector<ValueId> values;
  std::vector<std::string> names;
  for (const auto& [name, value] : outputs) {
    names.push_back(name);
    values.push_back(value);
  }
  return Network{graph_.finish(std::move(values), std::move(names)), rows, std::move(parameters_)};
}

}  // namespace tessera::nn
