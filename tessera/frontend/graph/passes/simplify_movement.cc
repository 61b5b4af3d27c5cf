#include <algorithm>
#include <array>
#include <string_view>

#include "tessera/frontend/graph/passes/permutation.h"
#include "tessera/frontend/graph/passes/simplify.h"
#include "tessera/support/planted.h"

namespace tessera::graph {
namespace {

using Integers = std::vector<std::int64_t>;

bool all_equal(const Integers& items, std::int64_t v) {
  return std::all_of(items.begin(), items.end(), [&](std::int64_t i) { return i == v; });
}

Result<ValueId> simplify_reshape(Editor& e, const Node& node) {
  const ValueId x = node.inputs[0];
  const Shape& shape = e.shape(node.outputs[0]);
  if (e.shape(x) == shape) return x;
  const Node* inner = e.producer(x, "reshape");
  if (!inner) return kNoValue;
  if (e.shape(inner->inputs[0]) == shape) return inner->inputs[0];
  return e.add("reshape", {inner->inputs[0]}, {{"shape", shape}});
}

Result<ValueId> simplify_transpose(Editor& e, const Node& node) {
  const ValueId x = node.inputs[0];
  const Permutation& perm = node.attrs.integers("perm");
  if (is_identity(perm)) return x;
  if (keeps_order(e.shape(x), perm)) {
    return e.add("reshape", {x}, {{"shape", e.shape(node.outputs[0])}});
  }
  const Node* inner = e.producer(x, "transpose");
  if (!inner) return kNoValue;
  const Permutation both = planted(1) ? compose(perm, inner->attrs.integers("perm"))
                                      : compose(inner->attrs.integers("perm"), perm);
  if (is_identity(both)) return inner->inputs[0];
  return e.add("transpose", {inner->inputs[0]}, {{"perm", both}});
}

Result<ValueId> simplify_slice(Editor& e, const Node& node) {
  const ValueId x = node.inputs[0];
  const Integers &starts = node.attrs.integers("starts"), &steps = node.attrs.integers("steps");
  if (e.shape(x) == e.shape(node.outputs[0]) && all_equal(starts, 0) && all_equal(steps, 1)) {
    return x;
  }
  const Node* inner = e.producer(x, "slice");
  if (!inner) return kNoValue;
  Integers start = inner->attrs.integers("starts"), step = inner->attrs.integers("steps");
  for (std::size_t i = 0; i < start.size(); ++i) {
    std::int64_t offset = 0;
    if (__builtin_mul_overflow(step[i], starts[i], &offset) ||
        __builtin_add_overflow(start[i], offset, &start[i]) ||
        __builtin_mul_overflow(step[i], steps[i], &step[i])) {
      return kNoValue;
    }
  }
  return e.add("slice", {inner->inputs[0]},
               {{"starts", start}, {"steps", step}, {"sizes", node.attrs.integers("sizes")}});
}

// A kernel chooses among its parts for every element, and its cost of compiling grows faster than
// their number: longer lists are joined in several steps.
constexpr std::size_t kMostParts = 64;

Result<ValueId> join_in_steps(Editor& e, std::vector<ValueId> parts, const Attrs& attrs) {
  while (parts.size() > kMostParts) {
    std::vector<ValueId> joined;
    for (std::size_t at = 0; at < parts.size(); at += kMostParts) {
      const std::size_t end = std::min(at + kMostParts, parts.size());
      const std::vector<ValueId> some(parts.begin() + static_cast<std::ptrdiff_t>(at),
                                      parts.begin() + static_cast<std::ptrdiff_t>(end));
      ValueId part = some[0];
      if (some.size() > 1) {
        TESSERA_TRY(part, e.add("concat", some, attrs));
      }
      joined.push_back(part);
    }
    parts = std::move(joined);
  }
  return e.add("concat", parts, attrs);
}

// Without operands that have no elements; a single one is the result.
Result<ValueId> simplify_concat(Editor& e, const Node& node) {
  std::vector<ValueId> rest;
  for (const ValueId id : node.inputs) {
    if (value_bytes(e.graph().type(id)) > 0) rest.push_back(id);
  }
  if (rest.empty()) rest.push_back(node.inputs[0]);
  if (rest.size() == 1 && e.graph().type(rest[0]) == e.graph().type(node.outputs[0])) {
    return rest[0];
  }
  if (rest.size() > kMostParts) return join_in_steps(e, std::move(rest), node.attrs);
  if (rest.size() == node.inputs.size() || rest.size() < 2) return kNoValue;
  return e.add("concat", rest, node.attrs);
}

// A reduction over axes of size 1 changes nothing but the shape.
Result<ValueId> simplify_reduce(Editor& e, const Node& node) {
  const Shape& shape = e.shape(node.inputs[0]);
  for (const std::int64_t axis : node.attrs.integers("axes")) {
    if (shape[static_cast<std::size_t>(axis)] != 1) return kNoValue;
  }
  if (e.graph().type(node.inputs[0]).dtype != e.dtype(node.outputs[0])) return kNoValue;
  return e.add("reshape", {node.inputs[0]}, {{"shape", e.shape(node.outputs[0])}});
}

// Zeros around the image belong to the convolution.
Result<ValueId> merge_pad_into_conv(Editor& e, const Node& node) {
  const Node* pad = e.producer(node.inputs[0], "pad");
  if (!pad || pad->attrs.word("mode") != "constant") return kNoValue;
  if (pad->inputs.size() > 1 && pad->inputs[1] != kNoValue &&
      splat_of(e.constant_of(pad->inputs[1])) != 0.) {
    return kNoValue;
  }
  const Integers &lo = pad->attrs.integers("before"), &hi = pad->attrs.integers("after");
  const std::size_t first = node.attrs.word("layout") == "nhwc" ? 1 : 2;
  const std::size_t channel = first == 1 ? lo.size() - 1 : 1;
  if (lo[0] + hi[0] + lo[channel] + hi[channel] != 0) return kNoValue;
  Integers before = node.attrs.integers("before"), after = node.attrs.integers("after");
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::int64_t off = planted(2) && lo[first + i] > 0 ? 1 : 0;
    before[i] += lo[first + i] - off;
    after[i] += hi[first + i] + off;
  }
  Attrs attrs = node.attrs;
  attrs.set("before", before);
  attrs.set("after", after);
  return e.add("conv", {pad->inputs[0], node.inputs[1]}, attrs);
}

// Reads through an expand where the operator broadcasts to the same result by itself.
Result<ValueId> skip_expand(Editor& e, const Node& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Node* expand = e.producer(node.inputs[i], "expand");
    if (!expand) continue;
    Node direct = node;
    direct.inputs[i] = expand->inputs[0];
    const auto types = node.op->infer(view(e.graph(), direct));
    if (!types || !((*types)[0] == e.graph().type(node.outputs[0]))) continue;
    return e.add(node.op->name, direct.inputs, direct.attrs);
  }
  return kNoValue;
}

// max(f(x)) -> f(max(x)) where f turns bytes into floats and keeps their order.
Result<ValueId> pool_bytes(Editor& e, const Node& node) {
  if (node.attrs.word("kind") != "max") return kNoValue;
  const auto positive = [&](ValueId id) {
    const HostTensor* t = e.constant_of(id);
    return t && t->size() == 1 && t->dtype() == DType::kF32 && t->get_float(0) > 0;
  };
  std::vector<Node> scaled;  // the last first
  ValueId x = node.inputs[0];
  const Node* cast = nullptr;
  while (!cast && e.has_one_reader(x)) {
    const Node* made = e.producer(x, "mul");
    if (!made) made = e.producer(x, "sub");
    if (made && made->inputs[0] != made->inputs[1] && positive(made->inputs[1])) {
      scaled.push_back(*made);
      x = made->inputs[0];
      continue;
    }
    cast = e.producer(x, "cast");
    if (!cast || size_bytes(e.graph().type(cast->inputs[0]).dtype) != 1) return kNoValue;
  }
  if (!cast) return kNoValue;
  const Attrs attrs = cast->attrs;
  TESSERA_TRY(ValueId y, e.add("pool", {cast->inputs[0]}, node.attrs));
  TESSERA_TRY(y, e.add("cast", {y}, attrs));
  for (auto made = scaled.rbegin(); made != scaled.rend(); ++made) {
    TESSERA_TRY(y, e.add(made->op->name, {y, made->inputs[1]}, made->attrs));
  }
  return y;
}

Result<ValueId> drop_if_nothing(Editor& e, const Node& node) {
  return e.shape(node.inputs[0]) == e.shape(node.outputs[0]) ? node.inputs[0] : kNoValue;
}

}  // namespace

Result<ValueId> simplify_movement(Editor& e, const Node& node) {
  struct Rule {
    std::string_view op;
    Result<ValueId> (*apply)(Editor& e, const Node& node);
  };
  static constexpr std::array kRules = {Rule{"concat", simplify_concat},
                                        Rule{"conv", merge_pad_into_conv},
                                        Rule{"expand", drop_if_nothing},
                                        Rule{"pad", drop_if_nothing},
                                        Rule{"pool", pool_bytes},
                                        Rule{"reduce", simplify_reduce},
                                        Rule{"reshape", simplify_reshape},
                                        Rule{"slice", simplify_slice},
                                        Rule{"transpose", simplify_transpose}};
  for (const Rule& rule : kRules) {
    if (rule.op == node.op->name) return rule.apply(e, node);
  }
  if (node.op->fusion == Fusion::kPointwise) return skip_expand(e, node);
  return kNoValue;
}

}  // namespace tessera::graph
