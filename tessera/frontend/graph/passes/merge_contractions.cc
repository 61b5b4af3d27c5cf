// contract(x, w1), contract(x, w2), ... -> slices of contract(x, [w1; w2; ...]). The slices must
// cost nothing: either they are contiguous, because the merged axis comes first in memory, or all
// that reads them is computed in loops that can start anywhere. Biases that follow every one of
// them are merged as well where contractions read slices in place.
#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/ranges.h>

#include "tessera/frontend/graph/op.h"
#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/layout_orders.h"
#include "tessera/support/planted.h"

namespace tessera::graph {
namespace {

// One contract by what must agree: the shared operand x, constant weights with one own label.
struct Product {
  std::size_t node = 0;
  std::string key;         // operand, labels and type
  std::size_t w_axis = 0;  // of the own label in the weights
  std::size_t axis = 0;    // ... in the result
};

std::optional<Product> product_of(const Graph& graph, std::size_t n) {
  const Node& node = graph.nodes[n];
  if (!node.op->is(fact::kContracts)) return std::nullopt;
  const bool swapped = graph.constant(node.inputs[0]) != nullptr;
  const HostTensor* w = graph.constant(node.inputs[swapped ? 0 : 1]);
  if (!w || graph.constant(node.inputs[swapped ? 1 : 0])) return std::nullopt;
  const std::string &x = node.attrs.word(swapped ? "b" : "a"),
                    &b = node.attrs.word(swapped ? "a" : "b"), &out = node.attrs.word("out");
  Product p{n, {}, std::string::npos, 0};
  Shape fixed = w->shape();
  for (std::size_t d = 0; d < b.size(); ++d) {
    if (x.find(b[d]) != std::string::npos) continue;
    if (p.w_axis != std::string::npos || out.find(b[d]) == std::string::npos) return std::nullopt;
    p.w_axis = d;
    p.axis = out.find(b[d]);
    fixed[d] = 0;
  }
  if (p.w_axis == std::string::npos) return std::nullopt;
  p.key =
      fmt::format("{} {} {} {} {} {}", node.inputs[swapped ? 1 : 0], swapped, to_text(node.attrs),
                  tessera::to_text(w->dtype()), tessera::to_text(fixed), p.axis);
  return p;
}

bool reads_anywhere(const Node& reader) {
  switch (reader.op->fusion) {
    case Fusion::kPointwise:
    case Fusion::kInjective:
    case Fusion::kReduction:
    case Fusion::kContraction:
      return true;
    default:
      return false;
  }
}

// Slices of the result along `axis` need no copy.
bool slices_are_free(const Graph& graph, const Uses& uses, const Product& p) {
  const ValueId y = graph.nodes[p.node].outputs[0];
  const Shape& shape = graph.shape(y);
  if (std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(p.axis),
                  [](std::int64_t size) { return size == 1; })) {
    return true;
  }
  if (uses.is_output[static_cast<std::size_t>(y)]) return false;
  const auto& readers = uses.readers[static_cast<std::size_t>(y)];
  return std::all_of(readers.begin(), readers.end(), [&](std::int32_t r) {
    return reads_anywhere(graph.nodes[static_cast<std::size_t>(r)]);
  });
}

// The merged product and, by old result, where its slice starts.
struct Merged {
  std::vector<Product> parts;
  std::vector<std::int32_t> biases;  // by part, the nodes that add a constant; empty: not all do
  ValueId merged = kNoValue;
};

// The node that adds a constant which varies along the merged axis alone, where nothing else reads
// the product; -1: there is none.
std::int32_t bias_of(const Graph& graph, const Uses& uses, const Product& p) {
  const ValueId y = graph.nodes[p.node].outputs[0];
  const auto& readers = uses.readers[static_cast<std::size_t>(y)];
  if (uses.is_output[static_cast<std::size_t>(y)] || readers.size() != 1) return -1;
  const Node& add = graph.nodes[static_cast<std::size_t>(readers[0])];
  if (std::string_view(add.op->name) != "add" || add.inputs[0] == add.inputs[1]) return -1;
  const ValueId other = add.inputs[add.inputs[0] == y ? 1 : 0];
  const Shape& shape = graph.shape(y);
  if (!graph.constant(other) || graph.shape(add.outputs[0]) != shape) return -1;
  if (graph.type(other).dtype != graph.type(y).dtype || graph.shape(other).size() > shape.size())
    return -1;
  Shape wanted(shape.size(), 1);
  wanted[p.axis] = shape[p.axis];
  return full_rank(graph.shape(other), shape.size()) == wanted ? readers[0] : -1;
}

// Contractions read all of `v`, maybe through reshapes.
bool contractions_read(const Graph& graph, const Uses& uses, ValueId v) {
  const auto& readers = uses.readers[static_cast<std::size_t>(v)];
  if (uses.is_output[static_cast<std::size_t>(v)] || readers.empty()) return false;
  return std::all_of(readers.begin(), readers.end(), [&](std::int32_t r) {
    const Node& reader = graph.nodes[static_cast<std::size_t>(r)];
    if (reader.op->is(fact::kReshapes)) return contractions_read(graph, uses, reader.outputs[0]);
    return reader.op->is(fact::kContracts);
  });
}

std::vector<std::int32_t> biases_of(const Graph& graph, const Uses& uses, const Merged& merge) {
  std::vector<std::int32_t> out;
  for (const Product& p : merge.parts) {
    const std::int32_t add = bias_of(graph, uses, p);
    if (add < 0) return {};
    if (!contractions_read(graph, uses, graph.nodes[static_cast<std::size_t>(add)].outputs[0]))
      return {};
    out.push_back(add);
  }
  return out;
}

Result<ValueId> slice_part(Editor& e, const Merged& merge, const Graph& old, std::size_t part) {
  const std::size_t axis = merge.parts[part].axis;
  const Shape& size = old.shape(old.nodes[merge.parts[part].node].outputs[0]);
  std::vector<std::int64_t> starts(size.size(), 0), steps(size.size(), 1);
  for (std::size_t i = 0; i < part; ++i) {
    starts[axis] += old.shape(old.nodes[merge.parts[i].node].outputs[0])[axis];
  }
  return e.add("slice", {merge.merged}, {{"starts", starts}, {"steps", steps}, {"sizes", size}});
}

// The product that `add` adds a bias to.
const Node& biased_product(const Editor& e, const Node& add) {
  const Node* left = e.producer(add.inputs[0], "contract");
  return left ? *left : *e.producer(add.inputs[1], "contract");
}

// The constants of all biases side by side along the merged axis.
Result<ValueId> merged_bias(Editor& e, const Merged& merge, const Graph& old) {
  std::vector<ValueId> constants;
  for (std::size_t i = 0; i < merge.parts.size(); ++i) {
    const Product& p = merge.parts[i];
    const Node& add = old.nodes[static_cast<std::size_t>(merge.biases[i])];
    const ValueId y = old.nodes[p.node].outputs[0];
    Shape shape(old.shape(y).size(), 1);
    shape[p.axis] = old.shape(y)[p.axis];
    TESSERA_TRY(const ValueId full,
                e.add("reshape", {add.inputs[add.inputs[0] == y ? 1 : 0]}, {{"shape", shape}}));
    constants.push_back(full);
  }
  return e.add("concat", constants, {{"axis", static_cast<std::int64_t>(merge.parts[0].axis)}});
}

Result<ValueId> merged_product(Editor& e, const Node& node, const Merged& merge, const Graph& old) {
  const std::size_t side = e.constant_of(node.inputs[0]) ? 0 : 1;
  std::vector<ValueId> weights;
  for (const Product& p : merge.parts) weights.push_back(old.nodes[p.node].inputs[side]);
  if (planted(10)) std::reverse(weights.begin(), weights.end());
  std::vector<ValueId> inputs = node.inputs;
  TESSERA_TRY(inputs[side], e.add("concat", weights,
                                  {{"axis", static_cast<std::int64_t>(merge.parts[0].w_axis)}}));
  TESSERA_TRY(const ValueId y, e.add("contract", inputs, node.attrs));
  if (merge.biases.empty()) return y;
  TESSERA_TRY(const ValueId bias, merged_bias(e, merge, old));
  return e.add("add", {y, bias});
}

// "merge f32[128,768] mk,kn->mn n768+768+768": equal merges share a decision.
std::string key_of(const Graph& graph, const Merged& merge) {
  const Node& first = graph.nodes[merge.parts[0].node];
  const bool swapped = graph.constant(first.inputs[0]) != nullptr;
  std::vector<std::int64_t> sizes;
  for (const Product& p : merge.parts) {
    sizes.push_back(graph.shape(graph.nodes[p.node].outputs[0])[p.axis]);
  }
  return fmt::format("merge {} {},{}->{} n{}", to_text(graph.type(first.inputs[swapped ? 1 : 0])),
                     first.attrs.word("a"), first.attrs.word("b"), first.attrs.word("out"),
                     fmt::join(sizes, "+"));
}

}  // namespace

Result<bool> merge_contractions(Graph& graph, const PassOptions& options) {
  const Graph old = graph;
  const Uses uses = find_uses(old);
  std::map<std::string, Merged> merges;
  for (std::size_t n = 0; n < old.nodes.size(); ++n) {
    const auto p = product_of(old, n);
    if (p && slices_are_free(old, uses, *p)) merges[p->key].parts.push_back(*p);
  }
  std::map<ValueId, std::pair<Merged*, std::size_t>> by_result;
  for (auto& [key, merge] : merges) {
    if (merge.parts.size() < 2) continue;
    TESSERA_TRY(
        const std::string chosen,
        decide(options, plan::make_point(
                            plan::PointKind::kMerge, key_of(old, merge),
                            options.rules.merge_contractions ? plan::kMerged : plan::kSeparate)));
    if (chosen != plan::kMerged) continue;
    if (options.rules.slices_in_place) merge.biases = biases_of(old, uses, merge);
    for (std::size_t i = 0; i < merge.parts.size(); ++i) {
      const std::size_t last =
          merge.biases.empty() ? merge.parts[i].node : static_cast<std::size_t>(merge.biases[i]);
      by_result[old.nodes[last].outputs[0]] = {&merge, i};
    }
  }
  if (by_result.empty()) return false;
  return Editor(graph).rewrite([&](Editor& e, const Node& node) -> Result<ValueId> {
    const auto it = by_result.find(node.outputs[0]);
    if (it == by_result.end()) return kNoValue;
    Merged& merge = *it->second.first;
    if (merge.merged == kNoValue) {
      const Node& first = merge.biases.empty() ? node : biased_product(e, node);
      TESSERA_TRY(merge.merged, merged_product(e, first, merge, old));
    }
    return slice_part(e, merge, old, it->second.second);
  });
}

}  // namespace tessera::graph
