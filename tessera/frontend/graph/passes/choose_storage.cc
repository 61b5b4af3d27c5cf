// dequantize(constants) -> a constant, unless its products read the integers themselves.
#include "tessera/frontend/graph/passes/choose_storage.h"

#include <algorithm>

#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/graph/passes/editor.h"

namespace tessera::graph {
namespace {

// Rows of a tile, for which an element is widened once.
constexpr std::int64_t kRowsOfTile = 8;
// Operations that widen an element: to take it out of its word, convert it, scale it.
constexpr double kUnpacking = 8;
// The same where bytes are multiplied, which are scaled block by block; and what that gains.
constexpr double kUnpackingBytes = 2, kSpeedOfBytes = 3;

// Bytes of an element with its share of scale and zero point.
double bytes_of(const Graph& graph, const Node& node) {
  double bytes = static_cast<double>(elements(graph.shape(node.inputs[0]))) *
                 static_cast<double>(node.attrs.integer("bits")) / 8;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != kNoValue)
      bytes += static_cast<double>(value_bytes(graph.type(node.inputs[i])));
  }
  return bytes /
         static_cast<double>(std::max<std::int64_t>(1, elements(graph.shape(node.outputs[0]))));
}

}  // namespace

bool unpacks_constants(const Graph& graph, const Node& node) {
  return node.op->is(fact::kUnpacks) &&
         std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return id == kNoValue || graph.constant(id); });
}

Result<HostTensor> widened(const Graph& graph, const Node& node, const PassOptions& options) {
  const TensorType& type = graph.type(node.outputs[0]);
  if (options.shapes_only) return HostTensor(type.dtype, type.shape);
  std::vector<const HostTensor*> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(graph.constant(id));
  TESSERA_TRY(std::vector<HostTensor> out, evaluate_node(*node.op, node.attrs, inputs));
  return std::move(out[0]);
}

std::optional<std::vector<ProductSizes>> products_of_weights(const Graph& graph, const Uses& uses,
                                                             ValueId id) {
  const auto at = static_cast<std::size_t>(id);
  if (uses.is_output[at] || uses.readers[at].empty()) return std::nullopt;
  std::vector<ProductSizes> out;
  for (const std::int32_t r : uses.readers[at]) {
    const Node& reader = graph.nodes[static_cast<std::size_t>(r)];
    if (reader.op->is(fact::kPermutes)) {
      const auto behind = products_of_weights(graph, uses, reader.outputs[0]);
      if (!behind) return std::nullopt;
      out.insert(out.end(), behind->begin(), behind->end());
      continue;
    }
    if (!reader.op->is(fact::kContracts) || reader.inputs[0] == reader.inputs[1])
      return std::nullopt;
    const auto sizes = product_sizes(graph, reader, reader.inputs[0] == id ? 0 : 1);
    if (!sizes) return std::nullopt;
    out.push_back(*sizes);
  }
  return out;
}

bool rounds(const Node& node, const PassOptions& options) {
  if (!options.rules.rounded_products || options.rounding == Rounding::kNever) return false;
  return options.rounding == Rounding::kAlways || node.attrs.integer("rounds", 0) != 0;
}

Result<bool> stays_narrow(const std::vector<ProductSizes>& products, double bytes, double unpacking,
                          const PassOptions& options, double speedup) {
  const double per_byte = options.rules.flops_per_byte;
  double wide_s = 0, narrow_s = 0;  // in operations for each element
  ProductSizes largest;
  for (const ProductSizes& p : products) {
    const auto work = static_cast<double>(2 * p.rows);
    const auto tiles = static_cast<double>((p.rows + kRowsOfTile - 1) / kRowsOfTile);
    wide_s += std::max(work, 4 * per_byte);
    narrow_s += std::max(work / speedup + unpacking * tiles, bytes * per_byte);
    if (p.rows >= largest.rows) largest = p;
  }
  const std::string key = fmt::format("weights m{} n{} k{} bits{}", largest.rows, largest.columns,
                                      largest.depth, static_cast<std::int64_t>(8 * bytes));
  const plan::Point point = plan::make_point(plan::PointKind::kStorage, key,
                                             narrow_s < wide_s ? plan::kNarrow : plan::kWide);
  TESSERA_TRY(const std::string value, decide(options, point));
  return value == plan::kNarrow;
}

Result<bool> choose_storage(Graph& graph, const PassOptions& options) {
  const Uses uses = find_uses(graph);
  std::vector<std::optional<std::vector<ProductSizes>>> products(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (unpacks_constants(graph, node)) {
      const ValueId id = node.outputs[0];
      products[static_cast<std::size_t>(id)] = products_of_weights(graph, uses, id);
    }
  }
  return Editor(graph).rewrite([&](Editor& e, const Node& node) -> Result<ValueId> {
    if (node.op->is(fact::kPermutes) && e.constant_of(node.inputs[0]))
      return e.add(node.op->name, node.inputs, node.attrs);
    if (!unpacks_constants(e.graph(), node)) return kNoValue;
    if (const auto& read_by = products[static_cast<std::size_t>(node.outputs[0])]) {
      const double bytes = bytes_of(e.graph(), node);
      TESSERA_TRY(const bool narrow,
                  rounds(node, options)
                      ? stays_narrow(*read_by, bytes, kUnpackingBytes, options, kSpeedOfBytes)
                      : stays_narrow(*read_by, bytes, kUnpacking, options));
      if (narrow) return kNoValue;
    }
    TESSERA_TRY(HostTensor wide, widened(e.graph(), node, options));
    return e.constant(std::move(wide));
  });
}

}  // namespace tessera::graph
