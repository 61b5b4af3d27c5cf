// Rules of a te::Dag.
#include <algorithm>
#include <set>

#include "tessera/lang/ir/visitor.h"
#include "tessera/lang/te/dag.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/invalid.h"

namespace tessera::te {
namespace {

constexpr std::size_t kMaxRank = 16;

bool is_arg(Reducer r) { return r == Reducer::kArgMax || r == Reducer::kArgMin; }

Result<void> check_shape(const ir::Buffer& buffer) {
  if (buffer->shape.size() > kMaxRank) {
    return invalid("buffer {}: rank {} exceeds {}", buffer->name, buffer->shape.size(), kMaxRank);
  }
  const auto total = checked_elements(buffer->shape, buffer->dtype);
  if (!total.ok()) return total.error().with_context("buffer " + buffer->name);
  return {};
}

class OpChecker {
 public:
  OpChecker(const Op& op, const std::set<ir::Buffer>& known) : op_(op), known_(known) {}

  Result<void> run() {
    TESSERA_DO(check_axes());
    TESSERA_DO(check_reducer());
    TESSERA_DO(check_outputs());
    for (const ir::Expr& value : op_.values) TESSERA_DO(check_value(value));
    return {};
  }

 private:
  Result<void> check_axes() {
    for (const auto* axes : {&op_.axes, &op_.reduce_axes}) {
      for (const Axis& axis : *axes) {
        const auto* var = axis.var.as<ir::Var>();
        if (!var) return invalid("an axis is not a variable");
        if (axis.var.type() != ir::Type{DType::kI64, 1})
          return invalid("axis {}: not i64", var->name);
        if (axis.extent < 0) return invalid("axis {}: negative extent {}", var->name, axis.extent);
        if (!vars_.insert(axis.var.get()).second) return invalid("axis {}: used twice", var->name);
      }
    }
    return {};
  }

  Result<void> check_reducer() const {
    const std::size_t n = op_.values.size();
    if (n == 0 || n != op_.outputs.size()) {
      return invalid("{} values for {} outputs", n, op_.outputs.size());
    }
    if (op_.reducer == Reducer::kNone && !op_.reduce_axes.empty()) {
      return invalid("reduce axes without a reducer");
    }
    if (is_arg(op_.reducer) && (n != 2 || !is_int(op_.values[1].dtype()))) {
      return invalid("{} needs a value and an integer index", to_text(op_.reducer));
    }
    return {};
  }

  Result<void> check_outputs() const {
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      const ir::Buffer& out = op_.outputs[i];
      if (known_.count(out) != 0) return invalid("buffer {}: written twice", out->name);
      TESSERA_DO(check_shape(out));
      const bool same =
          std::equal(out->shape.begin(), out->shape.end(), op_.axes.begin(), op_.axes.end(),
                     [](std::int64_t dim, const Axis& axis) { return dim == axis.extent; });
      if (!same) {
        return invalid("buffer {}: shape {} differs from the axes", out->name,
                       tessera::to_text(out->shape));
      }
      if (op_.values[i].type() != ir::Type{out->dtype, 1}) {
        return invalid("buffer {}: {} cannot hold a value of {}", out->name, to_text(out->dtype),
                       ir::to_text(op_.values[i].type()));
      }
    }
    return {};
  }

  Result<void> check_value(const ir::Expr& value) const {
    Result<void> result;
    ir::for_each_expr(value, [&](const ir::Expr& e) {
      if (result.ok()) result = check_node(e);
    });
    return result;
  }

  Result<void> check_node(const ir::Expr& e) const {
    if (e.lanes() != 1) return invalid("a value holds a vector");
    if (const auto* var = e.as<ir::Var>(); var && vars_.count(e.get()) == 0) {
      return invalid("variable {} is not an axis", var->name);
    }
    const auto* load = e.as<ir::Load>();
    if (!load) return {};
    if (known_.count(load->buffer) == 0) {
      return invalid("reads {}, which no input and no earlier operation defines",
                     load->buffer->name);
    }
    if (load->indices.size() != load->buffer->shape.size()) {
      return invalid("reads {} of rank {} with {} indices", load->buffer->name,
                     load->buffer->shape.size(), load->indices.size());
    }
    for (const ir::Expr& index : load->indices) {
      if (index.dtype() != DType::kI64)
        return invalid("reads {} with an index that is not i64", load->buffer->name);
    }
    return {};
  }

  const Op& op_;
  const std::set<ir::Buffer>& known_;
  std::set<const ir::ExprNode*> vars_;
};

}  // namespace

Result<void> verify(const Dag& dag) {
  std::set<ir::Buffer> known;
  std::set<std::string> names;
  const auto claim_name = [&](const std::string& name) -> Result<void> {
    if (!names.insert(name).second) return invalid("{}: two buffers are named {}", dag.name, name);
    return {};
  };
  for (const Input& input : dag.inputs) {
    TESSERA_DO(check_shape(input.buffer));
    TESSERA_DO(claim_name(input.buffer->name));
    known.insert(input.buffer);
  }
  for (const Op& op : dag.ops) {
    if (auto ok = OpChecker(op, known).run(); !ok.ok())
      return ok.error().with_context("op " + op.name);
    for (const ir::Buffer& out : op.outputs) {
      TESSERA_DO(claim_name(out->name));
      known.insert(out);
    }
  }
  if (dag.outputs.empty()) return invalid("{}: no output", dag.name);
  for (const ir::Buffer& out : dag.outputs) {
    if (!dag.producer(out)) return invalid("{}: output {} is not written", dag.name, out->name);
  }
  return {};
}

}  // namespace tessera::te
