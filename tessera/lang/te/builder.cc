#include "tessera/lang/te/builder.h"

namespace tessera::te {
namespace {

std::vector<Axis> make_axes(const NamedAxes& named) {
  std::vector<Axis> axes;
  for (const auto& [name, extent] : named) axes.push_back({ir::Var::make(name), extent});
  return axes;
}

Indices vars_of(const std::vector<Axis>& axes) {
  Indices vars;
  for (const Axis& axis : axes) vars.push_back(axis.var);
  return vars;
}

ir::Buffer make_output(const std::string& name, DType dtype, const std::vector<Axis>& axes) {
  std::vector<std::int64_t> shape;
  for (const Axis& axis : axes) shape.push_back(axis.extent);
  return ir::Buffer::make(name, dtype, std::move(shape));
}

}  // namespace

DagBuilder::DagBuilder(std::string name) { dag_.name = std::move(name); }

ir::Buffer DagBuilder::input(const std::string& name, DType dtype,
                             std::vector<std::int64_t> shape) {
  dag_.inputs.push_back({ir::Buffer::make(name, dtype, std::move(shape)), false});
  return dag_.inputs.back().buffer;
}

ir::Buffer DagBuilder::constant(const std::string& name, DType dtype,
                                std::vector<std::int64_t> shape) {
  dag_.inputs.push_back({ir::Buffer::make(name, dtype, std::move(shape)), true});
  return dag_.inputs.back().buffer;
}

ir::Buffer DagBuilder::compute(const std::string& name, const NamedAxes& axes,
                               const std::function<ir::Expr(const Indices&)>& value) {
  return reduce(name, Reducer::kNone, axes, {},
                [&](const Indices& i, const Indices&) { return value(i); });
}

ir::Buffer DagBuilder::reduce(
    const std::string& name, Reducer reducer, const NamedAxes& axes, const NamedAxes& reduce_axes,
    const std::function<ir::Expr(const Indices&, const Indices&)>& value) {
  Op op{.name = name,
        .axes = make_axes(axes),
        .reduce_axes = make_axes(reduce_axes),
        .reducer = reducer,
        .values = {},
        .outputs = {}};
  op.values.push_back(value(vars_of(op.axes), vars_of(op.reduce_axes)));
  op.outputs.push_back(make_output(name, op.values[0].dtype(), op.axes));
  dag_.ops.push_back(std::move(op));
  return dag_.ops.back().outputs[0];
}

std::pair<ir::Buffer, ir::Buffer> DagBuilder::arg_reduce(
    const std::string& name, Reducer reducer, const NamedAxes& axes, const NamedAxes& reduce_axes,
    const std::function<std::pair<ir::Expr, ir::Expr>(const Indices&, const Indices&)>& value) {
  Op op{.name = name,
        .axes = make_axes(axes),
        .reduce_axes = make_axes(reduce_axes),
        .reducer = reducer,
        .values = {},
        .outputs = {}};
  const auto [best, index] = value(vars_of(op.axes), vars_of(op.reduce_axes));
  op.values = {best, index};
  op.outputs = {make_output(name, best.dtype(), op.axes),
                make_output(name + ".index", index.dtype(), op.axes)};
  dag_.ops.push_back(std::move(op));
  const Op& done = dag_.ops.back();
  return {done.outputs[0], done.outputs[1]};
}

Dag DagBuilder::build(std::vector<ir::Buffer> outputs) {
  dag_.outputs = std::move(outputs);
  return std::move(dag_);
}

ir::Expr at(const ir::Buffer& buffer, Indices indices) {
  return ir::Load::make(buffer, std::move(indices));
}

ir::Expr at_broadcast(const ir::Buffer& buffer, const Indices& indices) {
  const auto rank = static_cast<std::ptrdiff_t>(buffer->shape.size());
  Indices own(indices.end() - rank, indices.end());
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (buffer->shape[d] == 1) own[d] = ir::int_imm(0);
  }
  return at(buffer, std::move(own));
}

}  // namespace tessera::te
