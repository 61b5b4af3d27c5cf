// contract(x, dequantize(q)) and contract(x, cast(q)) of constants -> contract_stored(x, q): the
// product reads q as it is, or several elements of few bits from a word. contract(x, dequantize(q))
// -> contract_rounded(x, q) where that may round x.
#include <algorithm>
#include <optional>

#include "tessera/frontend/graph/passes/choose_storage.h"
#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/lang/te/ops/rounded_product.h"

namespace tessera::graph {
namespace {

constexpr int kWordBits = 32;

// What a product reads of narrower constants.
struct Stored {
  const Node* node = nullptr;  // dequantize, or cast from another float
  std::size_t weights = 0;     // operand of the product
};

std::optional<Stored> stored_operand(const Editor& e, const Node& product) {
  if (!product.op->is(fact::kContracts)) return std::nullopt;
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    const Node* node = e.producer(product.inputs[i]);
    if (!node || !product_sizes(e.graph(), product, i)) continue;
    const bool reads = node->op->is(fact::kUnpacks) || node->op == find_op("cast");
    if (reads && e.constant_of(node->inputs[0])) return Stored{node, i};
  }
  return std::nullopt;
}

// The elements of an axis, several to a word of i32, the first in the lowest bits; `offset` is
// added to them, so that none is negative.
HostTensor packed(const HostTensor& q, std::size_t axis, int bits, std::int64_t offset) {
  const std::int64_t per_word = kWordBits / bits;
  Shape shape = q.shape();
  shape[axis] /= per_word;
  std::int64_t inner = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
  HostTensor out(DType::kI32, shape);
  auto* words = out.as<std::uint32_t>();
  for (std::int64_t i = 0; i < q.size(); ++i) {
    const std::int64_t along = i / inner;  // counts on through all that lies before the axis
    const auto value = static_cast<std::uint32_t>(q.get_int(i) + offset);
    words[along / per_word * inner + i % inner] |= value << (along % per_word * bits);
  }
  return out;
}

bool is_uniform(const HostTensor& t) {
  for (std::int64_t i = 1; i < t.size(); ++i) {
    if (t.get_int(i) != t.get_int(0)) return false;
  }
  return true;
}

// Of the labels that are summed over, that of the longest axis of the weights.
std::size_t summed_axis(const std::string& labels, const std::string& out, const Shape& shape) {
  std::size_t best = labels.size();
  for (std::size_t d = 0; d < labels.size(); ++d) {
    const bool summed = out.find(labels[d]) == std::string::npos;
    if (summed && (best == labels.size() || shape[d] > shape[best])) best = d;
  }
  return best;
}

// What a rounded product reads.
struct RoundedParts {
  bool turned = false;  // in the model the depth comes first
  std::int64_t columns = 0, depth = 0, block = 0, groups = 0;
};

// The product is one of rows with a matrix, [.., depth] x [columns, depth] -> [.., columns], whose
// groups are whole blocks of x.
std::optional<RoundedParts> rounded_parts(const Editor& e, const Node& product,
                                          const Stored& stored) {
  const bool second = stored.weights == 1;
  const std::string &x = product.attrs.word(second ? "a" : "b"),
                    &w = product.attrs.word(second ? "b" : "a"), &out = product.attrs.word("out");
  if (x.empty() || w.size() != 2 || out.size() != x.size()) return std::nullopt;
  RoundedParts p{.turned = w[0] == x.back()};
  const std::size_t depth = p.turned ? 0 : 1;
  const bool rows = w[depth] == x.back() && out.back() == w[1 - depth] &&
                    out.compare(0, out.size() - 1, x, 0, x.size() - 1) == 0;
  const Attrs& attrs = stored.node->attrs;
  if (!rows || attrs.integer("bits") < 4) return std::nullopt;
  const Shape shape = e.shape(stored.node->outputs[0]);
  p.columns = shape[1 - depth];
  p.depth = shape[depth];
  const bool along = attrs.integer("axis") == static_cast<std::int64_t>(depth);
  const std::int64_t group = along ? attrs.integer("group") : 1;
  p.groups = 1;
  for (std::size_t i = 1; i < stored.node->inputs.size(); ++i) {
    const ValueId id = stored.node->inputs[i];
    if (id != kNoValue) p.groups = std::max(p.groups, e.shape(id)[depth]);
  }
  p.block = p.groups > 1 && group == te::kRoundedBlock / 2 ? group : te::kRoundedBlock;
  const bool whole = p.groups == 1 || (group % p.block == 0 && p.depth % group == 0);
  if (!whole || (!along && p.groups > 1) || p.depth % p.block != 0) return std::nullopt;
  return p;
}

// u8 [columns, blocks, bytes] of q + offset, as te::RoundedWeights has them.
HostTensor rounded_data(const HostTensor& q, const RoundedParts& p, int bits, std::int64_t offset) {
  const std::int64_t bytes = p.block * bits / 8, step = p.turned ? p.columns : 1;
  HostTensor out(DType::kU8, {p.columns, p.depth / p.block, bytes});
  const auto* from = q.as<std::uint8_t>();
  auto* to = out.as<std::uint8_t>();
  for (std::int64_t j = 0; j < p.columns; ++j) {
    const std::uint8_t* row = from + (p.turned ? j : j * p.depth);
    for (std::int64_t k = 0; k < p.depth; k += p.block, to += bytes) {
      for (std::int64_t i = 0; i < p.block; ++i) {
        const auto value = static_cast<std::uint8_t>(row[(k + i) * step] + offset);
        to[i % bytes] = static_cast<std::uint8_t>(to[i % bytes] | value << (i / bytes * bits));
      }
    }
  }
  return out;
}

// A scale or zero point for each group of each column.
HostTensor rounded_shared(const HostTensor& t, const RoundedParts& p, bool shapes_only) {
  HostTensor out(t.dtype(), {p.columns, p.groups});
  if (shapes_only) return out;
  const std::size_t depth = p.turned ? 0 : 1;
  const bool of_columns = t.shape()[1 - depth] > 1, of_groups = t.shape()[depth] > 1;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const std::int64_t column = of_columns ? i / p.groups : 0, group = of_groups ? i % p.groups : 0;
    const std::int64_t at =
        p.turned ? group * t.shape()[1] + column : column * t.shape()[1] + group;
    if (is_float(t.dtype())) {
      out.set_float(i, t.get_float(at));
    } else {
      out.set_int(i, t.get_int(at));
    }
  }
  return out;
}

Result<ValueId> store_rounded(Editor& e, const Node& product, const Stored& stored,
                              const RoundedParts& p, const PassOptions& options) {
  const std::vector<ValueId> parts = stored.node->inputs;  // adding values moves nodes' graph
  const auto bits = static_cast<int>(stored.node->attrs.integer("bits"));
  const bool adds = stored.node->attrs.integer("adds", 0) != 0;
  const HostTensor q = *e.constant_of(parts[0]);
  std::int64_t offset = q.dtype() == DType::kI8 ? std::int64_t{1} << (bits - 1) : 0;
  std::vector<ValueId> inputs = {product.inputs[1 - stored.weights]};
  inputs.push_back(
      e.constant(options.shapes_only
                     ? HostTensor(DType::kU8, {p.columns, p.depth / p.block, p.block * bits / 8})
                     : rounded_data(q, p, bits, offset)));
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == kNoValue) continue;
    const HostTensor shared = *e.constant_of(parts[i]);
    if (i == 2 && !adds && is_int(shared.dtype()) && is_uniform(shared)) {
      offset += shared.get_int(0);
    } else {
      inputs.push_back(e.constant(rounded_shared(shared, p, options.shapes_only)));
    }
  }
  Attrs attrs{{"bits", std::int64_t{bits}}, {"offset", offset}};
  if (adds) attrs.set("adds", std::int64_t{1});
  return e.add("contract_rounded", inputs, std::move(attrs));
}

Result<ValueId> store(Editor& e, const Node& product, const Stored& stored,
                      const PassOptions& options) {
  if (stored.node->op->is(fact::kUnpacks) && rounds(*stored.node, options)) {
    if (const auto parts = rounded_parts(e, product, stored))
      return store_rounded(e, product, stored, *parts, options);
  }
  const bool second = stored.weights == 1;
  const std::string labels = product.attrs.word(second ? "b" : "a");
  const Shape shape = e.shape(stored.node->outputs[0]);
  const bool grouped = stored.node->attrs.has("group");
  const std::int64_t group = grouped ? stored.node->attrs.integer("group") : 1;
  std::size_t axis = summed_axis(labels, product.attrs.word("out"), shape);
  // Groups along another axis than the one that is summed over stay with their axis.
  if (grouped && group > 1) axis = static_cast<std::size_t>(stored.node->attrs.integer("axis"));
  if (axis == labels.size() || product.attrs.word("out").find(labels[axis]) != std::string::npos)
    return kNoValue;
  Attrs attrs{{"a", product.attrs.word(second ? "a" : "b")},
              {"b", labels},
              {"out", product.attrs.word("out")},
              {"bits", std::int64_t{0}},
              {"axis", static_cast<std::int64_t>(axis)},
              {"group", group},
              {"offset", std::int64_t{0}}};
  const bool adds = stored.node->attrs.integer("adds", 0) != 0;
  if (adds) attrs.set("adds", std::int64_t{1});
  std::vector<ValueId> inputs = {product.inputs[1 - stored.weights]};
  const std::vector<ValueId> parts = stored.node->inputs;  // adding values moves nodes' graph
  ValueId data = parts[0];
  const auto bits = static_cast<int>(stored.node->attrs.integer("bits", 8));
  if (bits < 8 && shape[axis] % (kWordBits / bits) == 0) {
    const HostTensor q = *e.constant_of(data);
    const std::int64_t offset = q.dtype() == DType::kI8 ? std::int64_t{1} << (bits - 1) : 0;
    Shape words = shape;
    words[axis] /= kWordBits / bits;
    data = e.constant(options.shapes_only ? HostTensor(DType::kI32, words)
                                          : packed(q, axis, bits, offset));
    attrs.set("bits", std::int64_t{bits});
    attrs.set("offset", offset);
  }
  inputs.push_back(data);
  inputs.insert(inputs.end(), parts.begin() + 1, parts.end());
  const HostTensor* zero = parts.size() > 2 ? e.constant_of(parts[2]) : nullptr;
  if (zero && !adds && is_int(zero->dtype()) && is_uniform(*zero)) {
    attrs.set("offset", attrs.integer("offset") + zero->get_int(0));
    inputs.pop_back();
  }
  return e.add("contract_stored", inputs, std::move(attrs));
}

}  // namespace

Result<bool> store_constants(Graph& graph, const PassOptions& options) {
  const auto rule = [&](Editor& e, const Node& node) -> Result<ValueId> {
    const std::optional<Stored> stored = stored_operand(e, node);
    return stored ? store(e, node, *stored, options) : Result<ValueId>(kNoValue);
  };
  TESSERA_TRY(const bool changed, Editor(graph).rewrite(rule));
  compact(graph);
  // What other passes made of a product may read it otherwise.
  const auto widen = [&](Editor& e, const Node& node) -> Result<ValueId> {
    if (!unpacks_constants(e.graph(), node)) return kNoValue;
    TESSERA_TRY(HostTensor wide, widened(e.graph(), node, options));
    return e.constant(std::move(wide));
  };
  TESSERA_TRY(const bool more, Editor(graph).rewrite(widen));
  return changed || more;
}

}  // namespace tessera::graph
