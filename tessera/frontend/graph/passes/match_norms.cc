#include <algorithm>
#include <string_view>

#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/frontend/graph/passes/simplify.h"

namespace tessera::graph {
namespace {

// y = a / b, as a division or as a product with a reciprocal (either side).
struct Quotient {
  ValueId a = kNoValue, b = kNoValue;
};
std::vector<Quotient> quotients(const Editor& e, const Node& node) {
  const std::string_view op = node.op->name;
  if (op == "div") return {{node.inputs[0], node.inputs[1]}};
  std::vector<Quotient> out;
  if (op != "mul") return out;
  for (std::size_t i = 0; i < 2; ++i) {
    const Node* r = e.producer(node.inputs[i], "recip");
    if (r) out.push_back({node.inputs[1 - i], r->inputs[0]});
  }
  return out;
}

// x and the axes of reduce(x) of this kind that keeps its dimensions, directly or by the reshape
// behind it.
struct Reduction {
  ValueId x = kNoValue;
  std::vector<std::int64_t> axes;
};
std::optional<Reduction> reduction(const Editor& e, ValueId id, std::string_view kind) {
  const Node* node = e.producer(id, "reduce");
  if (!node) {
    const Node* reshape = e.producer(id, "reshape");
    node = reshape ? e.producer(reshape->inputs[0], "reduce") : nullptr;
  }
  if (!node || node->attrs.word("kind") != kind) return std::nullopt;
  Reduction r{node->inputs[0], node->attrs.integers("axes")};
  std::sort(r.axes.begin(), r.axes.end());
  Shape kept = e.shape(r.x);
  for (const std::int64_t a : r.axes) kept[static_cast<std::size_t>(a)] = 1;
  if (kept != e.shape(id) || r.axes.empty()) return std::nullopt;
  return r;
}

// x for x * x.
ValueId square_root_of(const Editor& e, ValueId id) {
  const Node* mul = e.producer(id, "mul");
  return mul && mul->inputs[0] == mul->inputs[1] ? mul->inputs[0] : kNoValue;
}

// v and c for v + c with a constant that is the same everywhere.
std::optional<std::pair<ValueId, double>> plus_scalar(const Editor& e, ValueId id) {
  const Node* add = e.producer(id, "add");
  for (std::size_t i = 0; add && i < 2; ++i) {
    const auto c = splat_of(e.constant_of(add->inputs[i]));
    if (c) return std::pair{add->inputs[1 - i], *c};
  }
  return std::nullopt;
}

// The axes are the last ones of a value of this rank; returns the first of them.
std::optional<std::int64_t> last_axes(const std::vector<std::int64_t>& axes, std::size_t rank) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != static_cast<std::int64_t>(rank - axes.size() + i)) return std::nullopt;
  }
  return axes[0];
}

// exp(x - max(x)) / sum(exp(x - max(x))). The maximum is not required: softmax subtracts it anyhow.
Result<ValueId> match_softmax(Editor& e, const Node& node) {
  for (const Quotient& q : quotients(e, node)) {
    const auto sum = reduction(e, q.b, "sum");
    const Node* exp = e.producer(q.a, "exp");
    if (!sum || !exp || sum->x != q.a || sum->axes.size() != 1) continue;
    ValueId x = exp->inputs[0];
    if (const Node* sub = e.producer(x, "sub")) {
      const auto max = reduction(e, sub->inputs[1], "max");
      if (max && max->axes == sum->axes && max->x == sub->inputs[0]) x = sub->inputs[0];
    }
    return e.add("softmax", {x}, {{"axis", sum->axes[0]}});
  }
  return kNoValue;
}

// The operand d and what normalises it: d / sqrt(mean(square) + epsilon).
struct Normalised {
  ValueId d = kNoValue, squares = kNoValue;
  double epsilon = 0;
  std::vector<std::int64_t> axes;
};
std::vector<Normalised> normalised(const Editor& e, const Node& node) {
  std::vector<Normalised> out;
  for (const Quotient& q : quotients(e, node)) {
    const Node* root = e.producer(q.b, "sqrt");
    if (!root) continue;
    const auto with_epsilon = plus_scalar(e, root->inputs[0]);
    const ValueId variance = with_epsilon ? with_epsilon->first : root->inputs[0];
    const auto mean = reduction(e, variance, "mean");
    if (!mean || !(e.graph().type(q.a) == e.graph().type(node.outputs[0]))) continue;
    out.push_back({q.a, mean->x, with_epsilon ? with_epsilon->second : 0, mean->axes});
  }
  return out;
}

// x for a difference x - mean(x) over `axes`.
ValueId centred(const Editor& e, ValueId id, const std::vector<std::int64_t>& axes) {
  const Node* sub = e.producer(id, "sub");
  if (!sub) return kNoValue;
  const auto mean = reduction(e, sub->inputs[1], "mean");
  return mean && mean->x == sub->inputs[0] && mean->axes == axes ? sub->inputs[0] : kNoValue;
}

Result<ValueId> match_layernorm(Editor& e, const Node& node) {
  for (const Normalised& n : normalised(e, node)) {
    const auto axis = last_axes(n.axes, e.shape(n.d).size());
    if (!axis) continue;
    const ValueId rooted = square_root_of(e, n.squares);
    if (rooted == kNoValue) continue;
    const Attrs attrs = {{"axis", *axis}, {"epsilon", n.epsilon}};
    // The difference may have been exported twice; merge_common makes one node of it.
    const ValueId x = centred(e, n.d, n.axes);
    if (x != kNoValue && (rooted == n.d || centred(e, rooted, n.axes) == x)) {
      return e.add("layernorm", {x}, attrs);
    }
    if (rooted == n.d) return e.add("rmsnorm", {n.d}, attrs);
  }
  return kNoValue;
}

// `id` with the shape of the normalised axes, if it varies along them only; else kNoValue.
Result<ValueId> factor_of(Editor& e, const Node& norm, ValueId id) {
  const Shape& x = e.shape(norm.inputs[0]);
  const Shape inner(x.begin() + static_cast<std::ptrdiff_t>(norm.attrs.integer("axis")), x.end());
  const Shape& s = e.shape(id);
  if (e.dtype(id) != e.dtype(norm.inputs[0]) || s.size() < inner.size()) return kNoValue;
  if (!std::equal(inner.rbegin(), inner.rend(), s.rbegin())) return kNoValue;
  if (elements(s) != elements(inner)) return kNoValue;
  if (s.size() == inner.size()) return id;
  return e.add("reshape", {id}, {{"shape", inner}});
}

// norm(x) * scale and norm(x) + bias become operands of the norm.
Result<ValueId> match_affine(Editor& e, const Node& node) {
  const bool scale = std::string_view(node.op->name) == "mul";
  for (std::size_t i = 0; i < 2; ++i) {
    const Node* norm = e.producer(node.inputs[i]);
    if (!norm || !e.has_one_reader(node.inputs[i])) continue;
    const std::string_view op = norm->op->name;
    if (op != "layernorm" && !(op == "rmsnorm" && scale)) continue;
    const std::size_t given = norm->inputs.size();
    if (scale ? given != 1 : given > 2) continue;
    if (!(e.graph().type(node.inputs[i]) == e.graph().type(node.outputs[0]))) continue;
    TESSERA_TRY(const ValueId factor, factor_of(e, *norm, node.inputs[1 - i]));
    if (factor == kNoValue) continue;
    std::vector<ValueId> inputs = norm->inputs;
    if (!scale) inputs.resize(2, kNoValue);
    inputs.push_back(factor);
    return e.add(op, inputs, norm->attrs);
  }
  return kNoValue;
}

}  // namespace

Result<bool> match_norms(Graph& graph, const PassOptions&) {
  return Editor(graph).rewrite([](Editor& e, const Node& node) -> Result<ValueId> {
    const std::string_view op = node.op->name;
    if ((op != "div" && op != "mul" && op != "add") || !is_float(e.dtype(node.outputs[0]))) {
      return kNoValue;
    }
    if (op != "add") {
      TESSERA_TRY(const ValueId softmax, match_softmax(e, node));
      if (softmax != kNoValue) return softmax;
      TESSERA_TRY(const ValueId norm, match_layernorm(e, node));
      if (norm != kNoValue) return norm;
    }
    return op == "div" ? kNoValue : match_affine(e, node);
  });
}

}  // namespace tessera::graph
