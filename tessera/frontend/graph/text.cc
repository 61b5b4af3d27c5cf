#include <cmath>

#include "tessera/frontend/graph/op.h"

namespace tessera::graph {
namespace {

template <class T>
std::string list_text(const std::vector<T>& items) {
  return fmt::format("[{}]", fmt::join(items, ","));
}

struct AttrText {
  std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const {
    return fmt::format("{}", v);
  }  // shortest that reads back
  std::string operator()(const std::string& v) const { return v; }
  std::string operator()(const std::vector<std::int64_t>& v) const { return list_text(v); }
  std::string operator()(const std::vector<double>& v) const { return list_text(v); }
};

// Small constants by value, others by type.
std::string operand_text(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "_";
  const Value& v = graph.value(id);
  if (!v.is_constant) return "%" + v.name;
  if (v.constant.size() == 1 && v.type.shape.size() <= 1) {
    return is_float(v.type.dtype) ? fmt::format("{}", v.constant.get_float(0))
                                  : fmt::format("{}", v.constant.get_int(0));
  }
  return "const " + to_text(v.type);
}

}  // namespace

std::string to_text(const TensorType& type) {
  return fmt::format("{}[{}]", tessera::to_text(type.dtype), fmt::join(type.shape, ","));
}

std::string to_text(const Attrs& attrs) {
  std::string out;
  for (const auto& [name, value] : attrs.items()) {
    if (!out.empty()) out += ", ";
    out += name + "=" + std::visit(AttrText{}, value);
  }
  return out;
}

std::string to_text(const Graph& graph) {
  std::string out = fmt::format("graph {} {{\n", graph.name);
  for (const ValueId id : graph.inputs) {
    out += fmt::format("  input %{} : {}\n", graph.value(id).name, to_text(graph.type(id)));
  }
  for (const Node& node : graph.nodes) {
    std::vector<std::string> results, operands, types;
    for (const ValueId id : node.outputs) {
      results.push_back("%" + graph.value(id).name);
      types.push_back(to_text(graph.type(id)));
    }
    for (const ValueId id : node.inputs) operands.push_back(operand_text(graph, id));
    const std::string attrs = to_text(node.attrs);
    out += fmt::format("  {} = {}({}){} : {}\n", fmt::join(results, ", "), node.op->name,
                       fmt::join(operands, ", "), attrs.empty() ? "" : " {" + attrs + "}",
                       fmt::join(types, ", "));
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    out += fmt::format("  output {} = {}\n", graph.output_names[i],
                       operand_text(graph, graph.outputs[i]));
  }
  return out + "}\n";
}

}  // namespace tessera::graph
