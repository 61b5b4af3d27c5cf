// contract(x, w) of f32 -> contract_parts(float_parts(x), parts of w): six products of bf16 with
// sums in f32, which tensor cores take in less time than other units the one of f32.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/product_sizes.h"
#include "tessera/lang/te/ops/float_parts.h"

namespace tessera::graph {
namespace {

constexpr std::int64_t kLeastDepth = 64;  // of a tile of tensor cores

// A product with constant weights, which come second.
struct Product {
  ValueId x = kNoValue, w = kNoValue;
  std::string x_labels, w_labels, out;
  ProductSizes sizes;
};

std::optional<Product> product_of(const Editor& e, const Node& node) {
  if (!node.op->is(fact::kContracts) || node.attrs.has("a_starts") || node.attrs.has("b_starts"))
    return std::nullopt;
  const std::size_t weights = e.constant_of(node.inputs[0]) ? 0 : 1;
  Product p{.x = node.inputs[1 - weights],
            .w = node.inputs[weights],
            .x_labels = node.attrs.word(weights == 0 ? "b" : "a"),
            .w_labels = node.attrs.word(weights == 0 ? "a" : "b"),
            .out = node.attrs.word("out"),
            .sizes = {}};
  if (!e.constant_of(p.w) || e.constant_of(p.x) || e.dtype(p.x) != DType::kF32) return std::nullopt;
  const auto sizes = product_sizes(e.graph(), node, weights);
  if (!sizes || sizes->depth < kLeastDepth) return std::nullopt;
  p.sizes = *sizes;
  return p;
}

// Whether it is computed in parts.
Result<bool> is_split(const ProductSizes& p, const PassOptions& options) {
  const plan::Rules& rules = options.rules;
  const bool pays = p.rows >= rules.split_rows && p.columns >= rules.split_columns &&
                    p.rows * p.columns * p.depth >= rules.split_products;
  // By its sizes, as the algorithms of convolutions.
  const std::string key = fmt::format("product m{} n{} k{}", p.rows, p.columns, p.depth);
  const plan::Point point =
      plan::make_point(plan::PointKind::kPrecision, key, pays ? plan::kParts : plan::kWhole);
  TESSERA_TRY(const std::string value, decide(options, point));
  return value == plan::kParts;
}

// What a product reads, before it was given another shape: the kernel that makes it can store
// parts.
ValueId before_reshapes(const Editor& e, ValueId x) {
  while (const Node* reshape = e.producer(x, "reshape")) x = reshape->inputs[0];
  return x;
}

using Parts = std::map<ValueId, ValueId>;  // of values and weights that several products read

// Parts as those of a value of the shape.
Result<ValueId> parts_as(Editor& e, ValueId parts, const Shape& whole) {
  const Shape shape = te::parts_shape(whole);
  if (e.shape(parts) == shape) return parts;
  return e.add("reshape", {parts}, {{"shape", shape}});
}

// Whether all that reads the value, whatever its shape, are products and additions.
bool is_added_only(const Graph& graph, const Uses& uses, ValueId id) {
  if (uses.is_output[static_cast<std::size_t>(id)]) return false;
  const auto& readers = uses.readers[static_cast<std::size_t>(id)];
  return std::all_of(readers.begin(), readers.end(), [&](std::int32_t n) {
    const Node& reader = graph.nodes[static_cast<std::size_t>(n)];
    if (reader.op->is(fact::kReshapes)) return is_added_only(graph, uses, reader.outputs[0]);
    return reader.op->is(fact::kContracts) || std::string_view(reader.op->name) == "add";
  });
}

// A sum with a value that is stored in parts for products reads those, so that it need not be
// stored as a whole as well.
Result<ValueId> add_parts(Editor& e, const Node& node, const Parts& parts,
                          const std::set<ValueId>& added) {
  if (std::string_view(node.op->name) != "add") return kNoValue;
  std::vector<ValueId> inputs = node.inputs;
  for (ValueId& id : inputs) {
    const ValueId made = before_reshapes(e, id);
    const auto found = parts.find(made);
    if (found == parts.end() || !added.contains(made)) continue;
    TESSERA_TRY(const ValueId shaped, parts_as(e, found->second, e.shape(id)));
    TESSERA_TRY(id, e.add("float_whole", {shaped}));
  }
  return inputs == node.inputs ? Result<ValueId>(kNoValue) : e.add("add", inputs, node.attrs);
}

}  // namespace

Result<bool> split_floats(Graph& graph, const PassOptions& options) {
  if (options.rules.split_products <= 0) return false;
  Parts parts;
  std::set<ValueId> added;  // results of nodes that are only added and multiplied
  const Uses uses = find_uses(graph);
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.outputs) {
      if (id != kNoValue && is_added_only(graph, uses, id)) added.insert(id);
    }
  }
  return Editor(graph).rewrite([&](Editor& e, const Node& node) -> Result<ValueId> {
    const std::optional<Product> p = product_of(e, node);
    if (!p) return add_parts(e, node, parts, added);
    TESSERA_TRY(const bool split, is_split(p->sizes, options));
    if (!split) return kNoValue;
    const ValueId made = before_reshapes(e, p->x);
    if (!parts.contains(made)) {
      TESSERA_TRY(parts[made], e.add("float_parts", {made}));
    }
    TESSERA_TRY(const ValueId left, parts_as(e, parts[made], e.shape(p->x)));
    if (!parts.contains(p->w)) {
      const HostTensor w = *e.constant_of(p->w);
      parts[p->w] =
          e.constant(options.shapes_only ? HostTensor(DType::kBF16, te::parts_shape(w.shape()))
                                         : te::float_parts(w));
    }
    return e.add("contract_parts", {left, parts[p->w]},
                 {{"a", p->x_labels}, {"b", p->w_labels}, {"out", p->out}});
  });
}

}  // namespace tessera::graph
