#include "tessera/lang/te/before_rounding.h"

#include <map>
#include <set>

#include "tessera/lang/ir/visitor.h"
#include "tessera/lang/te/roundings.h"

namespace tessera::te {
namespace {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;
using ir::Intrinsic;
using Before = std::optional<Expr>;  // none: it cannot be said

constexpr DType kWide = DType::kF64;

Expr wide(double value) { return ir::FloatImm::make(kWide, value); }
Expr wide(const Expr& e) { return e.dtype() == kWide ? e : ir::Cast::make(kWide, e); }

// The nearest integer of the result is the next one below, above, or nearer to zero.
Expr below(const Expr& x) { return Binary::make(BinaryOp::kSub, x, wide(0.5)); }
Expr above(const Expr& x) { return Binary::make(BinaryOp::kAdd, x, wide(0.5)); }
Expr nearer_to_zero(const Expr& x) {
  return ir::Select::make(Binary::make(BinaryOp::kLt, x, wide(0)), above(x), below(x));
}

bool is_comparison(const Binary& b) {
  return (b.op == BinaryOp::kLt || b.op == BinaryOp::kLe) && is_float(b.a.dtype());
}

class Unrounder {
 public:
  explicit Unrounder(const Dag& dag) : dag_(dag) {}

  std::optional<Dag> run(const ir::Buffer& output) {
    const std::optional<ir::Buffer> before = buffer(output);
    if (!before) return std::nullopt;
    Dag out = dag_;
    out.ops.insert(out.ops.end(), added_.begin(), added_.end());
    out.outputs = {*before};
    drop_unused(out);
    return out;
  }

 private:
  static void drop_unused(Dag& dag) {
    std::set<const ir::BufferNode*> needed = {dag.outputs[0].get()};
    std::vector<Op> kept;
    for (auto op = dag.ops.rbegin(); op != dag.ops.rend(); ++op) {
      bool used = false;
      for (const ir::Buffer& b : op->outputs) used = used || needed.contains(b.get());
      if (!used) continue;
      for (const Expr& value : op->values) {
        ir::for_each_expr(value, [&](const Expr& e) {
          if (const auto* load = e.as<ir::Load>()) needed.insert(load->buffer.get());
        });
      }
      kept.push_back(*op);
    }
    dag.ops.assign(kept.rbegin(), kept.rend());
  }

  // Nothing that two builds may compute differently is in it.
  bool is_exact(const ir::Buffer& b) const { return !roundings(dag_, b).any(); }
  bool is_exact(const Expr& e) const {
    bool exact = true;
    ir::for_each_expr(e, [&](const Expr& part) {
      if (const auto* load = part.as<ir::Load>()) exact = exact && is_exact(load->buffer);
      exact = exact && !rounds_floats(part);
    });
    return exact;
  }

  // The same buffer before rounding, as an op of its own.
  std::optional<ir::Buffer> buffer(const ir::Buffer& b) {
    const auto known = made_.find(b);
    if (known != made_.end()) return known->second;
    const Op* op = dag_.producer(b);
    if (op == nullptr || op->outputs.size() != 1) return std::nullopt;
    if (op->reducer != Reducer::kNone && op->reducer != Reducer::kMax &&
        op->reducer != Reducer::kMin) {
      return std::nullopt;
    }
    const Before value = unrounded(op->values[0]);
    if (!value) return std::nullopt;
    Op made = *op;
    made.name = op->name + "_before";
    made.values = {*value};
    made.outputs = {ir::Buffer::make(b->name + "_before", kWide, b->shape, b->scope)};
    added_.push_back(made);
    made_.emplace(b, made.outputs[0]);
    return made.outputs[0];
  }

  Before load(const ir::Load& node, const Expr& e) {
    for (const Expr& index : node.indices) {
      if (!is_exact(index)) return std::nullopt;
    }
    if (is_exact(node.buffer)) return is_float(e.dtype()) ? Before() : Before(wide(e));
    const std::optional<ir::Buffer> before = buffer(node.buffer);
    if (!before) return std::nullopt;
    return ir::Load::make(*before, node.indices);
  }

  Before binary(const Binary& node) {
    if (is_comparison(node)) return above(difference(node.b, node.a));
    const bool extreme = node.op == BinaryOp::kMin || node.op == BinaryOp::kMax;
    const bool logical =
        node.type.dtype == DType::kBool && (node.op == BinaryOp::kAnd || node.op == BinaryOp::kOr);
    // Floats that hold integers: a zero point, say.
    const bool shifted = is_float(node.type.dtype) &&
                         (node.op == BinaryOp::kAdd || node.op == BinaryOp::kSub) &&
                         (is_whole(node.a) || is_whole(node.b));
    if (!extreme && !logical && !shifted) return std::nullopt;
    const Before a = unrounded(node.a), b = unrounded(node.b);
    if (!a || !b) return std::nullopt;
    const BinaryOp op =
        !logical ? node.op : (node.op == BinaryOp::kAnd ? BinaryOp::kMin : BinaryOp::kMax);
    return Binary::make(op, *a, *b);
  }
  static Expr difference(const Expr& a, const Expr& b) {
    return Binary::make(BinaryOp::kSub, wide(a), wide(b));
  }

  // An exact integer in a float.
  bool is_whole(const Expr& e) const {
    if (const auto* imm = e.as<ir::FloatImm>())
      return imm->value == static_cast<double>(static_cast<std::int64_t>(imm->value));
    if (const auto* cast = e.as<ir::Cast>())
      return is_int(cast->value.dtype()) && !rounds_floats(e) && is_exact(cast->value);
    const auto* load = e.as<ir::Load>();
    const Op* op = load ? dag_.producer(load->buffer) : nullptr;
    return op != nullptr && op->reducer == Reducer::kNone && op->values.size() == 1 &&
           is_whole(op->values[0]);
  }

  Before call(const ir::Call& node) {
    switch (node.fn) {
      case Intrinsic::kRound:
        return wide(node.args[0]);
      case Intrinsic::kFloor:
        return below(wide(node.args[0]));
      case Intrinsic::kCeil:
        return above(wide(node.args[0]));
      case Intrinsic::kTrunc:
        return nearer_to_zero(wide(node.args[0]));
      case Intrinsic::kNot: {
        if (node.type.dtype != DType::kBool) return std::nullopt;
        const Before x = unrounded(node.args[0]);
        if (!x) return std::nullopt;
        return Binary::make(BinaryOp::kSub, wide(1), *x);
      }
      default:
        return std::nullopt;
    }
  }

  Before cast(const ir::Cast& node) {
    const DType from = node.value.dtype(), to = node.type.dtype;
    if (is_float(from) && is_int(to)) {
      const Before whole = unrounded(node.value);
      return whole ? whole : nearer_to_zero(wide(node.value));
    }
    // Integers that fit stay what they are.
    const bool fits =
        is_float(to) || (is_int(from) && is_int(to) && size_bytes(to) > size_bytes(from));
    if (is_float(from) || !fits || rounds_floats(ir::Cast::make(to, node.value)))
      return std::nullopt;
    return unrounded(node.value);
  }

  // Of an integer, a bool, or a float that holds an integer.
  Before unrounded(const Expr& e) {
    if (is_whole(e) || (!is_float(e.dtype()) && is_exact(e))) return wide(e);
    if (const auto* node = e.as<ir::Load>()) return load(*node, e);
    if (const auto* node = e.as<Binary>()) return binary(*node);
    if (const auto* node = e.as<ir::Call>()) return call(*node);
    if (const auto* node = e.as<ir::Cast>()) return cast(*node);
    const auto* node = e.as<ir::Select>();
    if (node == nullptr || !is_exact(node->cond)) return std::nullopt;
    const Before a = unrounded(node->on_true), b = unrounded(node->on_false);
    if (!a || !b) return std::nullopt;
    return ir::Select::make(node->cond, *a, *b);
  }

  const Dag& dag_;
  std::vector<Op> added_;
  std::map<ir::Buffer, ir::Buffer> made_;
};

}  // namespace

std::optional<Dag> before_rounding(const Dag& dag, std::size_t output) {
  const ir::Buffer& b = dag.outputs[output];
  if (is_float(b->dtype) || dag.producer(b) == nullptr || !roundings(dag, output).any())
    return std::nullopt;
  return Unrounder(dag).run(b);
}

}  // namespace tessera::te
