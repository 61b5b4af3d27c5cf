#include "tessera/lang/te/dag.h"

#include <algorithm>
#include <limits>

#include "tessera/lang/ir/visitor.h"
#include "tessera/support/host_tensor.h"

namespace tessera::te {
namespace {

using ir::Expr;

Expr lowest(DType t) {
  if (is_float(t)) return ir::imm(t, -std::numeric_limits<double>::infinity());
  if (!is_signed_int(t)) return ir::IntImm::make(t, 0);
  return ir::IntImm::make(t, std::numeric_limits<std::int64_t>::min() >> (64 - 8 * size_bytes(t)));
}

Expr highest(DType t) {
  if (is_float(t)) return ir::imm(t, std::numeric_limits<double>::infinity());
  if (t == DType::kBool) return ir::bool_imm(true);
  if (is_unsigned_int(t)) return ir::IntImm::make(t, -1);
  return ir::IntImm::make(t, std::numeric_limits<std::int64_t>::max() >> (64 - 8 * size_bytes(t)));
}

// Operations that depend on loaded values; `has_load` tells whether `e` does.
double count_value_ops(const Expr& e, bool* has_load) {
  *has_load = false;
  bool below = false;
  switch (e.kind()) {
    case ir::ExprKind::kLoad:
      *has_load = true;
      return 0;
    case ir::ExprKind::kCast:
      return count_value_ops(e.as<ir::Cast>()->value, has_load);
    case ir::ExprKind::kBinary: {
      const auto* node = e.as<ir::Binary>();
      const double a = count_value_ops(node->a, has_load);
      const double b = count_value_ops(node->b, &below);
      *has_load |= below;
      return a + b + (*has_load ? 1 : 0);
    }
    case ir::ExprKind::kSelect: {
      const auto* node = e.as<ir::Select>();
      const double c = count_value_ops(node->cond, has_load);
      const double t = count_value_ops(node->on_true, &below);
      *has_load |= below;
      const double f = count_value_ops(node->on_false, &below);
      *has_load |= below;
      return c + std::max(t, f);
    }
    case ir::ExprKind::kCall: {
      const auto* node = e.as<ir::Call>();
      double total = 0;
      for (const Expr& arg : node->args) {
        total += count_value_ops(arg, &below);
        *has_load |= below;
      }
      return total + (*has_load ? (node->fn == ir::Intrinsic::kFma ? 2 : 1) : 0);
    }
    default:
      return 0;
  }
}

}  // namespace

const Op* Dag::producer(const ir::Buffer& buffer) const {
  for (const Op& op : ops) {
    if (std::find(op.outputs.begin(), op.outputs.end(), buffer) != op.outputs.end()) return &op;
  }
  return nullptr;
}

bool Dag::is_output(const ir::Buffer& buffer) const {
  return std::find(outputs.begin(), outputs.end(), buffer) != outputs.end();
}

const char* to_text(Reducer r) {
  switch (r) {
    case Reducer::kNone:
      return "none";
    case Reducer::kSum:
      return "sum";
    case Reducer::kMax:
      return "max";
    case Reducer::kMin:
      return "min";
    case Reducer::kProd:
      return "prod";
    case Reducer::kArgMax:
      return "argmax";
    case Reducer::kArgMin:
      return "argmin";
  }
  return "unknown";
}

Expr identity(Reducer r, DType t, std::size_t output) {
  switch (r) {
    case Reducer::kNone:
      break;
    case Reducer::kSum:
      return ir::imm(t, 0);
    case Reducer::kProd:
      return ir::imm(t, 1);
    case Reducer::kMax:
      return lowest(t);
    case Reducer::kMin:
      return highest(t);
    // The largest index loses every tie, so a real point with the identity's value replaces it.
    case Reducer::kArgMax:
      return output == 0 ? lowest(t) : highest(t);
    case Reducer::kArgMin:
      return highest(t);
  }
  TESSERA_CHECK(false, "identity: reducer {} has none", to_text(r));
  return {};
}

std::vector<Expr> combine(Reducer r, const std::vector<Expr>& acc, const std::vector<Expr>& value) {
  const std::size_t width = r == Reducer::kArgMax || r == Reducer::kArgMin ? 2 : 1;
  TESSERA_CHECK(acc.size() == width && value.size() == width, "combine: {} takes lists of {}",
                to_text(r), width);
  switch (r) {
    case Reducer::kNone:
      break;
    case Reducer::kSum:
      return {ir::add(acc[0], value[0])};
    case Reducer::kProd:
      return {ir::mul(acc[0], value[0])};
    case Reducer::kMax:
      return {ir::max(acc[0], value[0])};
    case Reducer::kMin:
      return {ir::min(acc[0], value[0])};
    case Reducer::kArgMax:
    case Reducer::kArgMin: {
      const bool max = r == Reducer::kArgMax;
      const Expr &low = max ? acc[0] : value[0], &high = max ? value[0] : acc[0];
      const Expr before = ir::lt(value[1], acc[1]);
      Expr take =
          ir::logical_or(ir::lt(low, high), ir::logical_and(ir::eq(value[0], acc[0]), before));
      if (is_float(value[0].type().dtype)) {
        // What is not in order is a NaN: it wins over a number, and the first one over others. One
        // comparison of the two serves both cases of `before`.
        const Expr number = ir::eq(acc[0], acc[0]), nan = ir::ne(value[0], value[0]);
        take = ir::select(before, ir::logical_not(ir::lt(high, low)),
                          ir::logical_not(ir::le(high, low)));
        take = ir::select(number, take, ir::logical_and(before, nan));
      }
      return {ir::select(take, value[0], acc[0]), ir::select(take, value[1], acc[1])};
    }
  }
  TESSERA_CHECK(false, "combine: reducer {} combines nothing", to_text(r));
  return {};
}

double flop_count(const Dag& dag) {
  double total = 0;
  for (const Op& op : dag.ops) {
    double points = 1;
    for (const Axis& axis : op.axes) points *= static_cast<double>(axis.extent);
    for (const Axis& axis : op.reduce_axes) points *= static_cast<double>(axis.extent);
    const bool arg = op.reducer == Reducer::kArgMax || op.reducer == Reducer::kArgMin;
    const std::size_t counted =
        arg ? 1 : op.values.size();  // the index of an arg reduction is index arithmetic
    double per_point = 0;
    for (std::size_t i = 0; i < counted; ++i) {
      bool has_load = false;
      per_point += count_value_ops(op.values[i], &has_load);
      if (op.reducer != Reducer::kNone) per_point += 1;
    }
    total += per_point * points;
  }
  return total;
}

}  // namespace tessera::te
