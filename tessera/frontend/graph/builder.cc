#include "tessera/frontend/graph/builder.h"

#include <algorithm>
#include <numeric>

namespace tessera::graph {

GraphBuilder::GraphBuilder(std::string name, BuilderOptions options)
    : options_(std::move(options)) {
  graph_.name = std::move(name);
  if (!options_.evaluate) options_.evaluate = evaluate_node;
}

ValueId GraphBuilder::input(const std::string& name, TensorType type) {
  const ValueId id = graph_.add_value(name, std::move(type));
  graph_.inputs.push_back(id);
  return id;
}

ValueId GraphBuilder::constant(HostTensor tensor, const std::string& name) {
  return graph_.add_constant(name, std::move(tensor));
}

ValueId GraphBuilder::scalar(DType dtype, double value) {
  HostTensor t(dtype, {});
  if (is_float(dtype)) {
    t.set_float(0, value);
  } else {
    // Saturates: the conversion of a double outside the range of int64 is undefined.
    t.set_int(0, !(value > -0x1p63)  ? INT64_MIN
                 : !(value < 0x1p63) ? INT64_MAX
                                     : static_cast<std::int64_t>(value));
  }
  return constant(std::move(t));
}

ValueId GraphBuilder::integers(const std::vector<std::int64_t>& values) {
  HostTensor t(DType::kI64, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) {
    t.set_int(static_cast<std::int64_t>(i), values[i]);
  }
  return constant(std::move(t));
}

namespace {

// Whether a result of these types is worth keeping as a constant.
Result<bool> worth_folding(const std::vector<TensorType>& types,
                           const std::vector<const HostTensor*>& inputs, std::int64_t limit) {
  std::int64_t out = 0, in = 0;
  for (const TensorType& t : types) {
    TESSERA_TRY(const std::int64_t count, checked_elements(t.shape, t.dtype));
    out += count * size_bytes(t.dtype);
  }
  for (const HostTensor* t : inputs) {
    if (t) in += static_cast<std::int64_t>(t->bytes());
  }
  return out <= std::max(limit, in);
}

}  // namespace

Result<std::vector<ValueId>> GraphBuilder::add_node(std::string_view name,
                                                    const std::vector<ValueId>& inputs,
                                                    Attrs attrs) {
  const OpDef* op = find_op(name);
  if (!op) return make_error(ErrorCode::kUnsupported, "there is no graph operator {}", name);
  Node node{op, std::move(attrs), inputs, {}, origin_};
  std::vector<const HostTensor*> constants;
  bool all_constant = true;
  for (const ValueId id : inputs) {
    constants.push_back(graph_.constant(id));
    all_constant = all_constant && (id == kNoValue || constants.back());
  }
  const Result<std::vector<TensorType>> types = op->infer(view(graph_, node));
  bool fold = all_constant && !op->is(fact::kUnpacks);
  if (types.ok()) {
    TESSERA_TRY(const bool worth, worth_folding(*types, constants, options_.fold_limit));
    fold = fold && worth;
  } else if (!(all_constant && types.error().code == ErrorCode::kDataDependent)) {
    return types.error();
  }
  std::vector<ValueId> outputs;
  if (fold) {
    TESSERA_TRY(std::vector<HostTensor> results, options_.evaluate(*op, node.attrs, constants));
    for (HostTensor& t : results) outputs.push_back(constant(std::move(t)));
    return outputs;
  }
  for (const TensorType& type : *types) outputs.push_back(graph_.add_value("", type));
  node.outputs = outputs;
  const bool unpacks = all_constant && op->is(fact::kUnpacks);
  if (unpacks || (op->is(fact::kPermutes) && unpacking_.contains(inputs[0])))
    unpacking_[outputs[0]] = graph_.nodes.size();
  graph_.nodes.push_back(std::move(node));
  return outputs;
}

Result<ValueId> GraphBuilder::unpacked(ValueId id) {
  const auto node = unpacking_.find(id);
  if (node == unpacking_.end()) return id;
  if (const auto known = unpacked_.find(id); known != unpacked_.end()) return known->second;
  const Node& unpacks = graph_.nodes[node->second];
  std::vector<HostTensor> inputs;
  std::vector<const HostTensor*> constants;
  for (const ValueId input : unpacks.inputs) {
    TESSERA_TRY(const ValueId wide, unpacked(input));
    inputs.push_back(wide == kNoValue ? HostTensor() : *graph_.constant(wide));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    constants.push_back(unpacks.inputs[i] == kNoValue ? nullptr : &inputs[i]);
  TESSERA_TRY(std::vector<HostTensor> results,
              options_.evaluate(*unpacks.op, unpacks.attrs, constants));
  return unpacked_[id] = constant(std::move(results[0]));
}

Result<ValueId> GraphBuilder::add(std::string_view op, const std::vector<ValueId>& inputs,
                                  Attrs attrs) {
  TESSERA_TRY(const std::vector<ValueId> outputs, add_node(op, inputs, std::move(attrs)));
  TESSERA_CHECK(outputs.size() == 1, "{} has {} outputs", op, outputs.size());
  return outputs[0];
}

Result<ValueId> GraphBuilder::cast(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  return add("cast", {x}, {{"to", std::string(tessera::to_text(to))}});
}

Result<ValueId> GraphBuilder::reshape(ValueId x, const Shape& shape) {
  if (this->shape(x) == shape) return x;
  return add("reshape", {x}, {{"shape", shape}});
}

Result<ValueId> GraphBuilder::transpose(ValueId x, const std::vector<std::int64_t>& perm) {
  std::vector<std::int64_t> same(shape(x).size());
  std::iota(same.begin(), same.end(), 0);
  if (perm == same) return x;
  return add("transpose", {x}, {{"perm", perm}});
}

void GraphBuilder::name_value(ValueId id, const std::string& name) { graph_.value(id).name = name; }

Graph GraphBuilder::finish(std::vector<ValueId> outputs, std::vector<std::string> output_names) {
  graph_.outputs = std::move(outputs);
  graph_.output_names = std::move(output_names);
  compact(graph_);
  return std::move(graph_);
}

}  // namespace tessera::graph
