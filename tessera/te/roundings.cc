#include "tessera/te/roundings.h"

#include <algorithm>
#include <set>

#include "tessera/ir/visitor.h"

namespace tessera::te {
namespace {

// Bits of the integers that a float type holds exactly.
int integer_bits(DType t) {
  switch (t) {
    case DType::kF64:
      return 53;
    case DType::kF32:
      return 24;
    case DType::kF16:
      return 11;
    default:
      return 8;  // bf16
  }
}

bool cast_rounds(DType from, DType to) {
  if (is_float(to)) {
    if (is_float(from)) return unit_roundoff(to) > unit_roundoff(from);
    return from != DType::kBool && 8 * size_bytes(from) > integer_bits(to);
  }
  return is_float(from) && is_int(to);  // wide integers are no row of the table
}

bool calculates(const ir::Expr& e) {
  if (!is_float(e.dtype())) return false;
  if (e.as<ir::Call>() != nullptr) return true;
  const auto* b = e.as<ir::Binary>();
  if (b == nullptr) return false;
  return b->op == ir::BinaryOp::kAdd || b->op == ir::BinaryOp::kSub ||
         b->op == ir::BinaryOp::kMul || b->op == ir::BinaryOp::kDiv || b->op == ir::BinaryOp::kMod;
}

// A sum of products in f32, which tensor cores may compute.
bool sums_products(const Op& op) {
  if (op.reducer != Reducer::kSum || op.values.size() != 1) return false;
  const auto* product = op.values[0].as<ir::Binary>();
  return product != nullptr && product->op == ir::BinaryOp::kMul &&
         op.values[0].dtype() == DType::kF32;
}

Roundings roundings(const Op& op, Products products) {
  double length = 1;
  if (op.reducer == Reducer::kSum || op.reducer == Reducer::kProd) {
    for (const Axis& a : op.reduce_axes) length *= static_cast<double>(a.extent);
  }
  std::set<DType> calculated, cast_to;
  for (const ir::Expr& value : op.values) {
    if (length > 1 && is_float(value.dtype())) calculated.insert(value.dtype());
    ir::for_each_expr(value, [&](const ir::Expr& e) {
      if (calculates(e)) calculated.insert(e.dtype());
      const auto* cast = e.as<ir::Cast>();
      if (cast != nullptr && cast_rounds(cast->value.dtype(), e.dtype())) cast_to.insert(e.dtype());
    });
  }
  Roundings out;
  for (const DType t : calculated) out.add(t, length);
  for (const DType t : cast_to) out.add(t);
  if (products == Products::kTf32 && sums_products(op)) out.add_tf32(2);
  return out;
}

Roundings of_outputs(const Dag& dag, const std::vector<ir::Buffer>& outputs, Products products) {
  std::set<const ir::BufferNode*> needed;
  for (const ir::Buffer& b : outputs) needed.insert(b.get());
  Roundings out;
  for (auto op = dag.ops.rbegin(); op != dag.ops.rend(); ++op) {
    const bool used = std::any_of(op->outputs.begin(), op->outputs.end(),
                                  [&](const ir::Buffer& b) { return needed.count(b.get()) > 0; });
    if (!used) continue;
    out.add(roundings(*op, products));
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
  return of_outputs(dag, {dag.outputs[output]}, products);
}

Roundings roundings(const Dag& dag, Products products) {
  return of_outputs(dag, dag.outputs, products);
}

}  // namespace tessera::te
