// A neural network with concrete shapes: values and the nodes that compute them. Import gives it,
// passes rewrite it, task/ cuts it into kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::graph {

struct OpDef;

using tessera::to_text;  // of shapes and types, beside those below

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string to_text(const TensorType& type);  // "f32[1,3,224,224]", "i64[]"

using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;  // an omitted optional input

using AttrValue =
    std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>>;

// Attributes of a node, by name. Getters CHECK: import and passes make nodes, users do not.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, AttrValue>> items) : map_(items) {}

  bool has(const std::string& name) const { return map_.count(name) != 0; }
  std::int64_t integer(const std::string& name) const;
  std::int64_t integer(const std::string& name, std::int64_t absent) const;
  double number(const std::string& name) const;
  double number(const std::string& name, double absent) const;
  const std::string& word(const std::string& name) const;
  const std::vector<std::int64_t>& integers(const std::string& name) const;
  DType dtype(const std::string& name) const;  // stored as its text
  void set(const std::string& name, AttrValue value) { map_[name] = std::move(value); }
  void erase(const std::string& name) { map_.erase(name); }
  const std::map<std::string, AttrValue>& items() const { return map_; }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  std::map<std::string, AttrValue> map_;
};
std::string to_text(const Attrs& attrs);  // "axis=1, pads=[0,1]"; numbers round-trip

struct Value {
  std::string name;  // as in the model where it has one; unique; only for people
  TensorType type;
  bool is_constant = false;
  HostTensor constant;  // when is_constant
};

struct Node {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<ValueId> inputs;   // kNoValue where omitted
  std::vector<ValueId> outputs;  // one per output of the operator
  std::string origin;  // the model's node(s) it came from, for messages: "Conv /layer1/conv1"
};

// Nodes are in topological order. Every value is a graph input, a constant, or the output of one
// node. Values that nothing uses may remain in `values`; `compact` drops them.
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs, outputs;   // an output may be an input or a constant itself
  std::vector<std::string> output_names;  // as in the model, one per output

  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const Shape& shape(ValueId id) const { return value(id).type.shape; }
  // The constant behind `id`, or null.
  const HostTensor* constant(ValueId id) const;
  ValueId add_value(std::string name_hint, TensorType type);
  ValueId add_constant(std::string name_hint, HostTensor tensor);
};

// Who writes and who reads each value, indexed by ValueId; valid until the graph changes.
struct Uses {
  std::vector<std::int32_t> producer;              // index into nodes, -1: input or constant
  std::vector<std::vector<std::int32_t>> readers;  // indices into nodes, one per reading operand
  std::vector<bool> is_output;
};
Uses find_uses(const Graph& graph);

// Topological order, types as the operators infer them, no dangling ids; the message names the
// node.
Result<void> verify(const Graph& graph);
// Drops nodes that no output needs and values that nothing mentions; renumbers values.
void compact(Graph& graph);

// Readable text: one line per input, constant (type only) and node. What `--stage graph` prints.
std::string to_text(const Graph& graph);

}  // namespace tessera::graph
