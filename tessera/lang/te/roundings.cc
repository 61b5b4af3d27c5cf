#include "tessera/lang/te/roundings.h"

#include <algorithm>
#include <map>
#include <set>

#include "tessera/lang/ir/visitor.h"
#include "tessera/support/float_format.h"

namespace tessera::te {
namespace {

bool cast_rounds(DType from, DType to) {
  if (is_float(from)) return unit_roundoff(to) > unit_roundoff(from);
  return from != DType::kBool && 8 * size_bytes(from) > float_format(to).integer_bits();
}

bool is_exact(ir::Intrinsic fn) {
  switch (fn) {
    case ir::Intrinsic::kAbs:
    case ir::Intrinsic::kFloor:
    case ir::Intrinsic::kCeil:
    case ir::Intrinsic::kRound:
    case ir::Intrinsic::kTrunc:
    case ir::Intrinsic::kBitcast:
      return true;
    default:
      return false;
  }
}

bool calculates(const ir::Expr& e) {
  if (!is_float(e.dtype())) return false;
  if (const auto* call = e.as<ir::Call>()) return !is_exact(call->fn);
  const auto* b = e.as<ir::Binary>();
  if (b == nullptr) return false;
  return b->op == ir::BinaryOp::kAdd || b->op == ir::BinaryOp::kSub ||
         b->op == ir::BinaryOp::kMul || b->op == ir::BinaryOp::kDiv || b->op == ir::BinaryOp::kMod;
}

double reduced_length(const Op& op) {
  double length = 1;
  if (op.reducer == Reducer::kSum || op.reducer == Reducer::kProd) {
    for (const Axis& a : op.reduce_axes) length *= static_cast<double>(a.extent);
  }
  return length;
}

// What every build computes alike, bit for bit: single operations of IEEE 754 on the same operands.
// Not sums, whose order differs, nor a product that is added to, which may be rounded or not.
class Reproducible {
 public:
  Reproducible(const Dag& dag, bool inputs) : dag_(dag), inputs_(inputs) {}

  bool operator()(const ir::Expr& e) {
    bool same = true;
    ir::for_each_expr(e, [&](const ir::Expr& part) { same = same && node(part); });
    return same;
  }

 private:
  bool node(const ir::Expr& e) {
    if (const auto* load = e.as<ir::Load>()) return buffer(load->buffer);
    if (!calculates(e)) return true;
    const auto* b = e.as<ir::Binary>();
    if (b == nullptr || b->op == ir::BinaryOp::kMod) return false;
    const bool adds = b->op == ir::BinaryOp::kAdd || b->op == ir::BinaryOp::kSub;
    return !adds || (!is_product(b->a) && !is_product(b->b));
  }

  bool is_product(const ir::Expr& e) const {
    if (const auto* b = e.as<ir::Binary>()) return b->op == ir::BinaryOp::kMul;
    const auto* load = e.as<ir::Load>();
    const Op* op = load != nullptr ? dag_.producer(load->buffer) : nullptr;
    return op != nullptr && op->values.size() == 1 && is_product(op->values[0]);
  }

  bool buffer(const ir::Buffer& b) {
    const auto known = known_.find(b.get());
    if (known != known_.end()) return known->second;
    const Op* op = dag_.producer(b);
    bool same = op != nullptr || inputs_ || !is_float(b->dtype);
    if (op != nullptr) {
      same = reduced_length(*op) == 1 || !is_float(b->dtype);
      for (const ir::Expr& value : op->values) same = same && (*this)(value);
    }
    return known_[b.get()] = same;
  }

  const Dag& dag_;
  bool inputs_;
  std::map<const ir::BufferNode*, bool> known_;
};

// A sum of products in f32, which tensor cores may compute.
bool sums_products(const Op& op) {
  if (op.reducer != Reducer::kSum || op.values.size() != 1) return false;
  const auto* product = op.values[0].as<ir::Binary>();
  return product != nullptr && product->op == ir::BinaryOp::kMul &&
         op.values[0].dtype() == DType::kF32;
}

Roundings roundings(const Op& op, Products products, Reproducible& reproducible) {
  const double length = reduced_length(op);
  std::set<DType> calculated, cast_to;
  for (const ir::Expr& value : op.values) {
    if (length > 1 && is_float(value.dtype())) calculated.insert(value.dtype());
    ir::for_each_expr(value, [&](const ir::Expr& e) {
      if (calculates(e)) calculated.insert(e.dtype());
      const auto* cast = e.as<ir::Cast>();
      if (cast == nullptr) return;
      const DType from = cast->value.dtype(), to = e.dtype();
      const bool decided = is_float(from) && is_int(to) && !reproducible(cast->value);
      if (decided || (is_float(to) && cast_rounds(from, to))) cast_to.insert(to);
    });
  }
  Roundings out;
  for (const DType t : calculated) out.add(t, length);
  for (const DType t : cast_to) out.add(t);
  if (products == Products::kTf32 && sums_products(op)) out.add_tf32(2);
  return out;
}

Roundings of_outputs(const Dag& dag, const std::vector<ir::Buffer>& outputs, Products products,
                     bool exact_inputs) {
  Reproducible reproducible(dag, exact_inputs);
  std::set<const ir::BufferNode*> needed;
  for (const ir::Buffer& b : outputs) needed.insert(b.get());
  Roundings out;
  for (auto op = dag.ops.rbegin(); op != dag.ops.rend(); ++op) {
    const bool used = std::any_of(op->outputs.begin(), op->outputs.end(),
                                  [&](const ir::Buffer& b) { return needed.count(b.get()) > 0; });
    if (!used) continue;
    out.add(roundings(*op, products, reproducible));
    for (const ir::Expr& value : op->values) {
      ir::for_each_expr(value, [&](const ir::Expr& e) {
        if (const auto* load = e.as<ir::Load>()) needed.insert(load->buffer.get());
      });
    }
  }
  return out;
}

}  // namespace

Roundings roundings(const Dag& dag, std::size_t output, Products products) {
  return roundings(dag, dag.outputs[output], products);
}

Roundings roundings(const Dag& dag, const ir::Buffer& buffer, Products products) {
  return of_outputs(dag, {buffer}, products, /*exact_inputs=*/true);
}

Roundings roundings_of_node(const Dag& dag, Products products) {
  return of_outputs(dag, dag.outputs, products, /*exact_inputs=*/false);
}

bool rounds_floats(const ir::Expr& e) {
  if (calculates(e)) return true;
  const auto* cast = e.as<ir::Cast>();
  return cast != nullptr && is_float(e.dtype()) && cast_rounds(cast->value.dtype(), e.dtype());
}

}  // namespace tessera::te
