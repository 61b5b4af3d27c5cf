#include "tessera/lang/ir/typing.h"

namespace tessera::ir {
namespace {

Typing fail(const char* error) { return {Type(), error}; }

bool is_bitwise(BinaryOp op) {
  return op == BinaryOp::kAnd || op == BinaryOp::kOr || op == BinaryOp::kXor;
}

// Bool has an order and logic but no arithmetic.
bool allowed_on_bool(BinaryOp op) {
  return is_bitwise(op) || is_comparison(op) || op == BinaryOp::kMin || op == BinaryOp::kMax;
}

bool allowed_on_float(BinaryOp op) {
  switch (op) {
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      return false;
    default:
      return !is_bitwise(op);
  }
}

}  // namespace

Typing binary_typing(BinaryOp op, Type a, Type b) {
  if (a != b) return fail("operands differ in type");
  if (a.dtype == DType::kBool && !allowed_on_bool(op)) return fail("no arithmetic on bool");
  if (is_float(a.dtype) && !allowed_on_float(op)) return fail("operation is for integers only");
  return {is_comparison(op) ? a.with_dtype(DType::kBool) : a};
}

Typing select_typing(Type cond, Type on_true, Type on_false) {
  if (cond.dtype != DType::kBool) return fail("select needs a bool condition");
  if (on_true != on_false) return fail("sides of select differ in type");
  if (cond.lanes != 1 && cond.lanes != on_true.lanes)
    return fail("select condition and sides differ in lanes");
  return {on_true};
}

Typing access_typing(const Buffer& buffer, const std::vector<Expr>& indices) {
  if (!buffer) return fail("no buffer");
  if (indices.size() != buffer->shape.size()) return fail("one index per dimension is needed");
  int lanes = 1;
  for (const Expr& index : indices) {
    if (!index || index.dtype() != DType::kI64) return fail("index is not i64");
    if (index.lanes() == 1) continue;
    if (lanes != 1 && lanes != index.lanes()) return fail("indices differ in lanes");
    lanes = index.lanes();
  }
  return {Type{buffer->dtype, lanes}};
}

Typing ramp_typing(Type base, int lanes) {
  if (base != Type{DType::kI64, 1}) return fail("ramp needs a scalar i64 base");
  if (lanes < 1) return fail("ramp needs at least one lane");
  return {base.with_lanes(lanes)};
}

Typing broadcast_typing(Type value, int total_lanes) {
  if (total_lanes < 1 || total_lanes % value.lanes != 0) {
    return fail("broadcast lanes are not a multiple of the value's");
  }
  return {value.with_lanes(total_lanes)};
}

Typing shuffle_typing(Type value, const std::vector<int>& picks) {
  if (picks.empty()) return fail("shuffle picks no lane");
  for (const int pick : picks) {
    if (pick < 0 || pick >= value.lanes) return fail("shuffle picks a lane that does not exist");
  }
  return {value.with_lanes(static_cast<int>(picks.size()))};
}

Typing bitcast_typing(DType to, Type value) {
  if (to == DType::kBool || value.dtype == DType::kBool) return fail("bool has no bit pattern");
  if (size_bytes(to) != size_bytes(value.dtype)) return fail("bitcast between different sizes");
  return {value.with_dtype(to)};
}

}  // namespace tessera::ir
