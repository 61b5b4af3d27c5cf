// A case as text: one line for each input, constant and node.
#include <fmt/ranges.h>

#include "tessera/frontend/graph/graph.h"
#include "trace.h"

namespace tessera::fuzz {
namespace {

constexpr std::int64_t kShown = 8;  // elements of a constant

std::string type_text(const Trace& trace, const std::string& name) {
  if (!trace.has(name)) return "?";
  const HostTensor& t = trace.at(name).value;
  return graph::to_text(graph::TensorType{t.dtype(), t.shape()});
}

std::string elements_text(const HostTensor& t) {
  std::vector<std::string> shown;
  for (std::int64_t i = 0; i < std::min(t.size(), kShown); ++i) {
    shown.push_back(is_float(t.dtype()) ? fmt::format("{:.6g}", t.get_float(i))
                                        : fmt::format("{}", t.get_int(i)));
  }
  return fmt::format("{}{}", fmt::join(shown, " "), t.size() > kShown ? " ..." : "");
}

struct AttributeText {
  std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(float v) const { return fmt::format("{}", v); }
  std::string operator()(const std::string& v) const { return '"' + v + '"'; }
  std::string operator()(const HostTensor& v) const {
    return fmt::format("{} {}: {}", to_text(v.dtype()), tessera::to_text(v.shape()),
                       elements_text(v));
  }
  std::string operator()(const onnx::ForeignTensor& v) const { return v.type; }
  std::string operator()(const std::shared_ptr<const onnx::Graph>& v) const {
    return fmt::format("a body of {} nodes", v->nodes.size());
  }
  std::string operator()(const std::vector<HostTensor>& v) const {
    return fmt::format("{} tensors", v.size());
  }
  template <class T>
  std::string operator()(const std::vector<T>& v) const {
    return fmt::format("[{}]", fmt::join(v, ", "));
  }
};

}  // namespace

std::string to_text(const Case& c, const Trace& trace) {
  const onnx::Graph& g = c.model.graph;
  std::string out = fmt::format("opset {}\n", c.model.opsets.at(""));
  for (const onnx::ValueInfo& v : g.inputs) {
    out += fmt::format("input {} {}", v.name, type_text(trace, v.name));
    for (const onnx::Dim& d : v.dims) out += d.symbol.empty() ? "" : " " + d.symbol;
    out += fmt::format(" = {}\n", elements_text(trace.at(v.name).value));
  }
  for (const onnx::Initializer& v : g.initializers) {
    out += fmt::format("constant {} {} = {}\n", v.name, type_text(trace, v.name),
                       elements_text(std::get<HostTensor>(v.value)));
  }
  for (const onnx::Node& node : g.nodes) {
    std::vector<std::string> types, attributes;
    for (const std::string& n : node.outputs) types.push_back(type_text(trace, n));
    for (const onnx::Attribute& a : node.attributes) {
      attributes.push_back(a.name + "=" + std::visit(AttributeText(), a.value));
    }
    out +=
        fmt::format("{} = {}({}){} : {}\n", fmt::join(node.outputs, ", "), node.op_type,
                    fmt::join(node.inputs, ", "),
                    attributes.empty() ? "" : fmt::format(" {{{}}}", fmt::join(attributes, ", ")),
                    fmt::join(types, ", "));
  }
  for (const onnx::ValueInfo& v : g.outputs) out += fmt::format("output {}\n", v.name);
  return out;
}

}  // namespace tessera::fuzz
