#include "tessera/app/quantize/model_index.h"

#include <algorithm>

namespace tessera::app {
namespace {

// Names that the bodies of a node read, from wherever.
void add_body_reads(const onnx::Node& node, std::set<std::string>* names) {
  for (const onnx::Attribute& a : node.attributes) {
    const auto* body = std::get_if<std::shared_ptr<const onnx::Graph>>(&a.value);
    if (!body) continue;
    for (const onnx::Node& inner : (*body)->nodes) {
      names->insert(inner.inputs.begin(), inner.inputs.end());
      add_body_reads(inner, names);
    }
    for (const onnx::ValueInfo& output : (*body)->outputs) names->insert(output.name);
  }
}

}  // namespace

ModelIndex::ModelIndex(const onnx::Graph& graph) : graph_(graph) {
  for (const onnx::Initializer& i : graph.initializers) {
    if (const auto* t = std::get_if<HostTensor>(&i.value)) constants_[i.name] = *t;
  }
  // The default of an input may be replaced by whoever runs the model.
  for (const onnx::ValueInfo& input : graph.inputs) constants_.erase(input.name);
  for (const onnx::ValueInfo& output : graph.outputs) elsewhere_.insert(output.name);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const onnx::Node& node = graph.nodes[i];
    for (const std::string& name : node.inputs) readers_[name].push_back(i);
    for (const std::string& name : node.outputs) producers_[name] = i;
    add_body_reads(node, &elsewhere_);
    const bool constant = is_plain(node, "Constant") && !node.outputs.empty();
    const onnx::Attribute* value = constant ? node.find("value") : nullptr;
    if (const auto* t = value ? std::get_if<HostTensor>(&value->value) : nullptr)
      constants_[node.outputs[0]] = *t;
  }
}

const HostTensor* ModelIndex::constant(const std::string& name) const {
  const auto found = constants_.find(name);
  return found == constants_.end() ? nullptr : &found->second;
}

const onnx::Node* ModelIndex::producer(const std::string& name) const {
  const auto found = producers_.find(name);
  return found == producers_.end() ? nullptr : &graph_.nodes[found->second];
}

const std::vector<std::size_t>& ModelIndex::readers(const std::string& name) const {
  static const std::vector<std::size_t> kNone;
  const auto found = readers_.find(name);
  return found == readers_.end() ? kNone : found->second;
}

const onnx::Node* ModelIndex::only_reader(const std::string& name) const {
  if (is_read_elsewhere(name) || readers(name).size() != 1) return nullptr;
  return &graph_.nodes[readers(name)[0]];
}

FreshNames::FreshNames(const onnx::Graph& graph) {
  for (const onnx::Initializer& i : graph.initializers) used_.insert(i.name);
  for (const onnx::ValueInfo& input : graph.inputs) used_.insert(input.name);
  for (const onnx::Node& node : graph.nodes) {
    used_.insert(node.outputs.begin(), node.outputs.end());
    used_.insert(node.inputs.begin(), node.inputs.end());
    add_body_reads(node, &used_);
  }
}

std::string FreshNames::operator()(std::string name) {
  while (!used_.insert(name).second) name += "_";
  return name;
}

std::string add_constant(onnx::Graph& graph, FreshNames& fresh, const std::string& name,
                         std::variant<HostTensor, onnx::ForeignTensor> value) {
  graph.initializers.push_back({fresh(name), std::move(value)});
  return graph.initializers.back().name;
}

void drop_unused_constants(onnx::Graph& graph) {
  std::set<std::string> read;
  for (const onnx::Node& node : graph.nodes) {
    read.insert(node.inputs.begin(), node.inputs.end());
    add_body_reads(node, &read);
  }
  for (const onnx::ValueInfo& v : graph.outputs) read.insert(v.name);
  for (const onnx::ValueInfo& v : graph.inputs) read.insert(v.name);
  std::erase_if(graph.initializers,
                [&](const onnx::Initializer& i) { return !read.contains(i.name); });
  std::erase_if(graph.nodes, [&](const onnx::Node& node) {
    return is_plain(node, "Constant") && !node.outputs.empty() && !read.contains(node.outputs[0]);
  });
}

bool is_plain(const onnx::Node& node, std::string_view op) {
  return node.domain.empty() && node.op_type == op;
}

std::int64_t integer_attribute(const onnx::Node& node, std::string_view name, std::int64_t absent) {
  const onnx::Attribute* a = node.find(name);
  const auto* value = a ? std::get_if<std::int64_t>(&a->value) : nullptr;
  return value ? *value : absent;
}

double float_attribute(const onnx::Node& node, std::string_view name, double absent) {
  const onnx::Attribute* a = node.find(name);
  const auto* value = a ? std::get_if<float>(&a->value) : nullptr;
  return value ? *value : absent;
}

}  // namespace tessera::app
