// Reductions over axes, and the position of the largest or smallest element along one axis.
#include <algorithm>

#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/graph/ops/ops.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/support/invalid.h"

namespace tessera::graph {
namespace {

using Types = std::vector<TensorType>;
using Buffers = std::vector<ir::Buffer>;
using ir::Expr;
using te::Indices;
using te::Reducer;

// Per axis of the input: is it reduced.
Result<std::vector<bool>> reduced_axes(const std::vector<std::int64_t>& axes, std::size_t rank) {
  std::vector<bool> reduced(rank, false);
  for (const std::int64_t axis : axes) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) {
      return invalid("axis {} of a tensor of rank {}", axis, rank);
    }
    if (reduced[static_cast<std::size_t>(axis)]) return invalid("axis {} is given twice", axis);
    reduced[static_cast<std::size_t>(axis)] = true;
  }
  return reduced;
}

Shape reduced_shape(const Shape& shape, const std::vector<bool>& reduced, bool keep) {
  Shape out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!reduced[d]) out.push_back(shape[d]);
    if (reduced[d] && keep) out.push_back(1);
  }
  return out;
}

// The input element of output point `i` and reduction point `k`.
Indices source(const std::vector<bool>& reduced, bool keep, const Indices& i, const Indices& k) {
  Indices at;
  auto kept = i.begin(), inner = k.begin();
  for (const bool r : reduced) {
    at.push_back(r ? *inner++ : *kept++);
    if (r && keep) ++kept;
  }
  return at;
}

struct Kind {
  const char* name;
  Reducer reducer;
};
constexpr Kind kKinds[] = {{"sum", Reducer::kSum},
                           {"mean", Reducer::kSum},
                           {"max", Reducer::kMax},
                           {"min", Reducer::kMin},
                           {"prod", Reducer::kProd}};

Result<Reducer> reducer_of(const std::string& kind) {
  for (const Kind& row : kKinds) {
    if (row.name == kind) return row.reducer;
  }
  return invalid("kind {} is not one of sum, mean, max, min, prod", kind);
}

Result<void> check_one_input(const NodeView& node) {
  if (node.size() != 1 || !node.has(0)) return invalid("one input is needed");
  return {};
}

Result<Types> infer_reduce(const NodeView& node) {
  TESSERA_DO(check_one_input(node));
  TESSERA_TRY(const Reducer reducer, reducer_of(node.attrs.word("kind")));
  const bool ordered = reducer == Reducer::kMax || reducer == Reducer::kMin;
  if (node.dtype(0) == DType::kBool && !ordered) {
    return invalid("{} is not defined for bool", node.attrs.word("kind"));
  }
  TESSERA_TRY(const auto reduced, reduced_axes(node.attrs.integers("axes"), node.shape(0).size()));
  const bool keep = node.attrs.integer("keepdims") != 0;
  return Types{{node.dtype(0), reduced_shape(node.shape(0), reduced, keep)}};
}

// Means of integers sum in i64: their sum may leave the type although the mean cannot.
DType accumulator(DType t, const std::string& kind) {
  if (kind == "max" || kind == "min") return t;
  if (kind == "mean" && is_int(t)) return DType::kI64;
  return compute_type(t);
}

Result<Buffers> define_reduce(te::DagBuilder& b, const std::string& name, const NodeView& node,
                              const Buffers& inputs) {
  const std::string& kind = node.attrs.word("kind");
  const bool keep = node.attrs.integer("keepdims") != 0;
  const Shape& shape = node.shape(0);
  const DType t = node.dtype(0), acc = accumulator(t, kind);
  TESSERA_TRY(const Reducer reducer, reducer_of(kind));
  TESSERA_TRY(const auto reduced, reduced_axes(node.attrs.integers("axes"), shape.size()));
  const te::NamedAxes out = axes_over(reduced_shape(shape, reduced, keep));
  if (node.attrs.integers("axes").empty()) {
    return Buffers{b.compute(name, out, [&](const Indices& i) { return te::at(inputs[0], i); })};
  }
  Shape inner;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (reduced[d]) inner.push_back(shape[d]);
  }
  const bool mean = kind == "mean";
  const bool again = mean || acc != t;  // a second stage divides or rounds
  const ir::Buffer y = b.reduce(again ? name + ".acc" : name, reducer, out, axes_over(inner, "k"),
                                [&](const Indices& i, const Indices& k) {
                                  const Indices at = source(reduced, keep, i, k);
                                  return te::to_type(acc, te::at(inputs[0], at));
                                });
  if (!again) return Buffers{y};
  return Buffers{b.compute(name, out, [&](const Indices& i) {
    Expr value = te::at(y, i);
    if (mean) value = ir::div(value, ir::int_like(value.type(), elements(inner)));
    return te::to_type(t, value);
  })};
}

Result<Types> infer_arg_reduce(const NodeView& node) {
  TESSERA_DO(check_one_input(node));
  const std::string& kind = node.attrs.word("kind");
  if (kind != "max" && kind != "min") return invalid("kind {} is not one of max, min", kind);
  const std::int64_t axis = node.attrs.integer("axis");
  TESSERA_TRY(const auto reduced, reduced_axes({axis}, node.shape(0).size()));
  const bool keep = node.attrs.integer("keepdims") != 0;
  Shape shape = reduced_shape(node.shape(0), reduced, keep);
  if (node.shape(0)[static_cast<std::size_t>(axis)] == 0 && elements(shape) != 0) {
    return invalid("axis {} is empty: no element is the {}", axis, kind);
  }
  return Types{{DType::kI64, std::move(shape)}};
}

Result<Buffers> define_arg_reduce(te::DagBuilder& b, const std::string& name, const NodeView& node,
                                  const Buffers& inputs) {
  const std::int64_t axis = node.attrs.integer("axis");
  const bool keep = node.attrs.integer("keepdims") != 0;
  const bool last = node.attrs.integer("last", 0) != 0;
  const Shape& shape = node.shape(0);
  const std::int64_t size = shape[static_cast<std::size_t>(axis)];
  TESSERA_TRY(const auto reduced, reduced_axes({axis}, shape.size()));
  const te::NamedAxes out = axes_over(reduced_shape(shape, reduced, keep));
  const Reducer reducer = node.attrs.word("kind") == "max" ? Reducer::kArgMax : Reducer::kArgMin;
  // Ties keep the smaller number, so the last position is found by counting from the end.
  const auto number = [&](const Expr& k) { return last ? ir::int_imm(size - 1) - k : k; };
  const auto best = b.arg_reduce(
      name + ".best", reducer, out, {{"k0", size}}, [&](const Indices& i, const Indices& k) {
        return std::pair(te::at(inputs[0], source(reduced, keep, i, k)), number(k[0]));
      });
  return Buffers{
      b.compute(name, out, [&](const Indices& i) { return number(te::at(best.second, i)); })};
}

}  // namespace

std::vector<OpDef> reduction_ops() {
  return {{.name = "arg_reduce",
           .fusion = Fusion::kReduction,
           .infer = infer_arg_reduce,
           .define = define_arg_reduce,
           .facts = fact::kReduces | fact::kAxis},
          {.name = "reduce",
           .fusion = Fusion::kReduction,
           .infer = infer_reduce,
           .define = define_reduce,
           .facts = fact::kReduces | fact::kAxes}};
}

}  // namespace tessera::graph
