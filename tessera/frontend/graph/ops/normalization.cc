// softmax, layernorm, rmsnorm and local response normalisation.
#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/graph/ops/ops.h"
#include "tessera/frontend/graph/ops/power.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/normalize.h"
#include "tessera/support/invalid.h"

namespace tessera::graph {
namespace {

using Types = std::vector<TensorType>;
using Buffers = std::vector<ir::Buffer>;
using ir::Expr;
using te::Indices;

Result<void> check_input(const NodeView& node, std::size_t max_inputs) {
  if (node.size() < 1 || node.size() > max_inputs || !node.has(0)) {
    return invalid("1 to {} inputs are needed", max_inputs);
  }
  if (!is_float(node.dtype(0))) return invalid("not defined for {}", to_text(node.dtype(0)));
  return {};
}

Result<std::size_t> axis_of(const NodeView& node) {
  const std::int64_t axis = node.attrs.integer("axis");
  if (axis < 0 || axis >= static_cast<std::int64_t>(node.shape(0).size())) {
    return invalid("axis {} of a tensor of rank {}", axis, node.shape(0).size());
  }
  return static_cast<std::size_t>(axis);
}

// Normalises the axes [axis, end) of the first input together.
te::Normalization normalization(const std::string& name, const NodeView& node,
                                const Buffers& inputs, std::size_t axis, std::size_t end) {
  te::Normalization n{.x = inputs[0],
                      .axes = axes_over(node.shape(0)),
                      .together = std::vector<bool>(node.shape(0).size(), false),
                      .acc = compute_type(node.dtype(0)),
                      .out = node.dtype(0),
                      .prefix = name + ".",
                      .last = name};
  for (std::size_t d = axis; d < end; ++d) n.together[d] = true;
  return n;
}

Result<Types> infer_softmax(const NodeView& node) {
  TESSERA_DO(check_input(node, 1));
  if (auto axis = axis_of(node); !axis.ok()) return axis.error();
  return Types{*node.types[0]};
}

Result<Buffers> define_softmax(te::DagBuilder& b, const std::string& name, const NodeView& node,
                               const Buffers& inputs) {
  TESSERA_TRY(const std::size_t axis, axis_of(node));
  return Buffers{te::softmax_stages(b, normalization(name, node, inputs, axis, axis + 1))};
}

// x and factors that broadcast to it; x, scale and bias may differ in type.
Result<Types> infer_norm(const NodeView& node, std::size_t max_inputs) {
  TESSERA_DO(check_input(node, max_inputs));
  if (auto axis = axis_of(node); !axis.ok()) return axis.error();
  for (std::size_t i = 1; i < node.size(); ++i) {
    if (!node.has(i)) continue;
    if (!is_float(node.dtype(i))) return invalid("factor {} is {}", i, to_text(node.dtype(i)));
    if (!broadcasts_to(node.shape(i), node.shape(0))) {
      return invalid("factor {} of shape {} does not broadcast to {}", i,
                     tessera::to_text(node.shape(i)), tessera::to_text(node.shape(0)));
    }
  }
  return Types{*node.types[0]};
}

Result<Types> infer_layernorm(const NodeView& node) { return infer_norm(node, 3); }
Result<Types> infer_rmsnorm(const NodeView& node) { return infer_norm(node, 2); }

ir::Buffer optional_input(const Buffers& inputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : ir::Buffer();
}

Result<Buffers> define_layernorm(te::DagBuilder& b, const std::string& name, const NodeView& node,
                                 const Buffers& inputs) {
  TESSERA_TRY(const std::size_t axis, axis_of(node));
  const te::Normalization n = normalization(name, node, inputs, axis, node.shape(0).size());
  return Buffers{te::layernorm_stages(b, n, node.attrs.number("epsilon"), optional_input(inputs, 1),
                                      optional_input(inputs, 2))};
}

Result<Buffers> define_rmsnorm(te::DagBuilder& b, const std::string& name, const NodeView& node,
                               const Buffers& inputs) {
  TESSERA_TRY(const std::size_t axis, axis_of(node));
  const te::Normalization n = normalization(name, node, inputs, axis, node.shape(0).size());
  return Buffers{te::rmsnorm_stages(b, n, node.attrs.number("epsilon"), optional_input(inputs, 1))};
}

Result<Types> infer_lrn(const NodeView& node) {
  TESSERA_DO(check_input(node, 1));
  if (node.shape(0).size() < 2) return invalid("an input [N, C, ...] is needed");
  // Also keeps positions in the window within i64.
  const std::int64_t size = node.attrs.integer("size");
  if (size < 1 || size > (std::int64_t{1} << 32)) return invalid("a window of {} channels", size);
  return Types{*node.types[0]};
}

// y = x / (bias + alpha / size * squares)^beta, squares summed over `size` channels round x's.
Result<Buffers> define_lrn(te::DagBuilder& b, const std::string& name, const NodeView& node,
                           const Buffers& inputs) {
  const DType t = node.dtype(0), acc = compute_type(t);
  const std::int64_t size = node.attrs.integer("size"), channels = node.shape(0)[1];
  const te::NamedAxes axes = axes_over(node.shape(0));
  const ir::Buffer squares = b.reduce(name + ".sq", te::Reducer::kSum, axes, {{"k0", size}},
                                      [&](const Indices& i, const Indices& k) {
                                        Indices at = i;
                                        at[1] = i[1] + k[0] - (size - 1) / 2;
                                        const Expr v = te::to_type(acc, te::at(inputs[0], at));
                                        const Expr inside =
                                            ir::logical_and(ir::ge(at[1], ir::int_imm(0)),
                                                            ir::lt(at[1], ir::int_imm(channels)));
                                        return ir::select(inside, v * v, ir::imm(acc, 0));
                                      });
  const double alpha = node.attrs.number("alpha") / static_cast<double>(size);
  const double beta = node.attrs.number("beta"), bias = node.attrs.number("bias");
  return Buffers{b.compute(name, axes, [&](const Indices& i) {
    const Expr base = te::at(squares, i) * ir::imm(acc, alpha) + ir::imm(acc, bias);
    return te::to_type(t, ir::div(te::to_type(acc, te::at(inputs[0], i)), power(base, beta)));
  })};
}

}  // namespace

std::vector<OpDef> normalization_ops() {
  return {{.name = "layernorm",
           .fusion = Fusion::kReduction,
           .infer = infer_layernorm,
           .define = define_layernorm,
           .facts = fact::kKeepsAxes | fact::kNormalizes},
          {.name = "lrn", .fusion = Fusion::kReduction, .infer = infer_lrn, .define = define_lrn},
          {.name = "rmsnorm",
           .fusion = Fusion::kReduction,
           .infer = infer_rmsnorm,
           .define = define_rmsnorm,
           .facts = fact::kKeepsAxes | fact::kNormalizes},
          {.name = "softmax",
           .fusion = Fusion::kReduction,
           .infer = infer_softmax,
           .define = define_softmax,
           .facts = fact::kKeepsAxes | fact::kAxis}};
}

}  // namespace tessera::graph
