#include "tessera/frontend/graph/roundings.h"

#include <algorithm>
#include <string_view>

#include "tessera/frontend/graph/op.h"
#include "tessera/lang/te/roundings.h"

namespace tessera::graph {
namespace {

// One rounding of every output: for what has no expression to look at.
Roundings of_types(const Graph& graph, const Node& node) {
  Roundings out;
  for (const ValueId id : node.outputs) {
    if (id != kNoValue && is_float(graph.type(id).dtype)) out.add(graph.type(id).dtype);
  }
  return out;
}

Roundings of_node(const Graph& graph, const Node& node, Products products) {
  const bool empty = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
    return id == kNoValue || elements(graph.shape(id)) == 0;
  });
  if (empty || node.op->define == nullptr) return of_types(graph, node);
  const std::string_view name = node.op->name;
  if (name == "float_parts" || name == "float_whole") return {};  // they add up to what it was
  te::DagBuilder b(node.op->name);
  std::vector<ir::Buffer> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) {
      inputs.emplace_back();
      continue;
    }
    const TensorType& type = graph.type(node.inputs[i]);
    inputs.push_back(b.input(fmt::format("in{}", i), type.dtype, type.shape));
  }
  const Result<std::vector<ir::Buffer>> outputs =
      node.op->define(b, node.op->name, view(graph, node), inputs);
  return outputs.ok() ? te::roundings_of_node(b.build(*outputs), products) : of_types(graph, node);
}

}  // namespace

std::vector<double> term_magnitudes(const Graph& graph) {
  std::vector<double> known(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    double magnitude = 0;
    if (node.op->name == std::string_view("sigmoid")) {
      magnitude = 1;
    } else if (!of_node(graph, node, Products::kExact).any()) {  // moves values
      for (const ValueId id : node.inputs) {
        if (id != kNoValue) magnitude = std::max(magnitude, known[static_cast<std::size_t>(id)]);
      }
    }
    for (const ValueId id : node.outputs) {
      if (id != kNoValue) known[static_cast<std::size_t>(id)] = magnitude;
    }
  }
  std::vector<double> out;
  for (const ValueId id : graph.outputs) out.push_back(known[static_cast<std::size_t>(id)]);
  return out;
}

std::vector<Roundings> roundings(const Graph& graph, Products products) {
  std::vector<bool> varies(graph.values.size(), false);
  for (const ValueId id : graph.inputs) varies[static_cast<std::size_t>(id)] = true;
  std::vector<Roundings> of_nodes(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const bool runs = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return id != kNoValue && varies[static_cast<std::size_t>(id)];
    });
    if (!runs) continue;
    of_nodes[n] = of_node(graph, node, products);
    for (const ValueId id : node.outputs) {
      if (id != kNoValue) varies[static_cast<std::size_t>(id)] = true;
    }
  }
  std::vector<Roundings> out;
  for (const ValueId output : graph.outputs) {
    std::vector<bool> needed(graph.values.size(), false);
    needed[static_cast<std::size_t>(output)] = true;
    Roundings sum;
    for (std::size_t n = graph.nodes.size(); n-- > 0;) {
      const Node& node = graph.nodes[n];
      const bool used = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
        return id != kNoValue && needed[static_cast<std::size_t>(id)];
      });
      if (!used) continue;
      sum.add(of_nodes[n]);
      for (const ValueId id : node.inputs) {
        if (id != kNoValue) needed[static_cast<std::size_t>(id)] = true;
      }
    }
    out.push_back(sum);
  }
  return out;
}

}  // namespace tessera::graph
