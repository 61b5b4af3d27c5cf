#include "tessera/lang/ir/fold.h"

#include <cmath>
#include <limits>

namespace tessera::ir {
namespace {

using U64 = std::uint64_t;

U64 u(std::int64_t v) { return static_cast<U64>(v); }
std::int64_t s(U64 v) { return static_cast<std::int64_t>(v); }

// Division by zero gives 0; the most negative number over -1 wraps to itself.
std::int64_t trunc_div(DType t, std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (t == DType::kU64) return s(u(a) / u(b));
  return b == -1 ? s(0 - u(a)) : a / b;
}

std::int64_t trunc_mod(DType t, std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (t == DType::kU64) return s(u(a) % u(b));
  return b == -1 ? 0 : a % b;
}

std::int64_t floor_mod_value(DType t, std::int64_t a, std::int64_t b) {
  const std::int64_t r = trunc_mod(t, a, b);
  return is_signed_int(t) && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

std::int64_t floor_div_value(DType t, std::int64_t a, std::int64_t b) {
  const std::int64_t q = trunc_div(t, a, b);
  const std::int64_t r = trunc_mod(t, a, b);
  return is_signed_int(t) && r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}

bool less(DType t, std::int64_t a, std::int64_t b) {
  return t == DType::kU64 ? u(a) < u(b) : a < b;
}

// The amount is taken modulo the width of the type.
int shift_amount(DType t, std::int64_t b) {
  return static_cast<int>(u(b) % (8u * static_cast<U64>(size_bytes(t))));
}

template <class T>
T fold_as(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
    case BinaryOp::kMod:
      return std::fmod(a, b);
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
      return (op == BinaryOp::kMin) == (b < a) ? b : a;
    default:
      break;
  }
  TESSERA_CHECK(false, "{} is not an operation on floats", to_text(op));
}

double round_even(double v) { return v - std::remainder(v, 1.0); }

double fold_unary(Intrinsic fn, DType t, double v) {
  switch (fn) {
    case Intrinsic::kAbs:
      return std::fabs(v);
    case Intrinsic::kFloor:
      return std::floor(v);
    case Intrinsic::kCeil:
      return std::ceil(v);
    case Intrinsic::kTrunc:
      return std::trunc(v);
    case Intrinsic::kRound:
      return std::isfinite(v) ? std::copysign(round_even(v), v) : v;
    default:
      return t == DType::kF64 ? std::sqrt(v)
                              : static_cast<double>(std::sqrt(static_cast<float>(v)));
  }
}

Expr fold_fma(DType t, double a, double b, double c) {
  if (t == DType::kF64) return FloatImm::make(t, std::fma(a, b, c));
  return FloatImm::make(
      t, std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
}

}  // namespace

std::int64_t fold_int(BinaryOp op, DType t, std::int64_t a, std::int64_t b) {
  const auto wrap = [t](std::int64_t v) { return wrap_int(t, v); };
  switch (op) {
    case BinaryOp::kAdd:
      return wrap(s(u(a) + u(b)));
    case BinaryOp::kSub:
      return wrap(s(u(a) - u(b)));
    case BinaryOp::kMul:
      return wrap(s(u(a) * u(b)));
    case BinaryOp::kDiv:
      return wrap(trunc_div(t, a, b));
    case BinaryOp::kMod:
      return trunc_mod(t, a, b);
    case BinaryOp::kFloorDiv:
      return wrap(floor_div_value(t, a, b));
    case BinaryOp::kFloorMod:
      return floor_mod_value(t, a, b);
    case BinaryOp::kMin:
      return less(t, b, a) ? b : a;
    case BinaryOp::kMax:
      return less(t, a, b) ? b : a;
    case BinaryOp::kAnd:
      return a & b;
    case BinaryOp::kOr:
      return a | b;
    case BinaryOp::kXor:
      return a ^ b;
    case BinaryOp::kShl:
      return wrap(s(u(a) << shift_amount(t, b)));
    case BinaryOp::kShr:
      return t == DType::kU64 ? s(u(a) >> shift_amount(t, b)) : a >> shift_amount(t, b);
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return less(t, a, b);
    case BinaryOp::kLe:
      return !less(t, b, a);
  }
  return 0;
}

double fold_float(BinaryOp op, DType t, double a, double b) {
  if (t == DType::kF64) return fold_as<double>(op, a, b);
  return round_float(t, fold_as<float>(op, static_cast<float>(a), static_cast<float>(b)));
}

bool fold_float_compare(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return a < b;
    default:
      return a <= b;
  }
}

std::int64_t float_to_int(DType to, double v) {
  if (to == DType::kBool) return v != 0;
  if (std::isnan(v)) return 0;
  const int bits = 8 * size_bytes(to) - (is_signed_int(to) ? 1 : 0);
  const double end = std::ldexp(1.0, bits);  // exclusive
  if (v >= end) return is_signed_int(to) ? s((U64{1} << bits) - 1) : wrap_int(to, -1);
  if (is_signed_int(to))
    return v <= -end ? -s((U64{1} << bits) - 1) - 1 : static_cast<std::int64_t>(v);
  return v <= 0 ? 0 : s(static_cast<U64>(v));
}

double int_to_float(DType to, DType from, std::int64_t v) {
  if (to == DType::kF64)
    return from == DType::kU64 ? static_cast<double>(u(v)) : static_cast<double>(v);
  return round_float(to, from == DType::kU64 ? static_cast<float>(u(v)) : static_cast<float>(v));
}

bool fold_call(const Call& call, Expr* result) {
  if (call.args.empty()) return false;
  const Expr& first = call.args[0];
  if (const auto* i = first.as<IntImm>()) {
    const DType t = first.dtype();
    if (call.fn == Intrinsic::kAbs) {
      *result = is_signed_int(t) && i->value < 0 ? IntImm::make(t, s(0 - u(i->value))) : first;
    } else if (call.fn == Intrinsic::kNot) {
      *result = IntImm::make(t, t == DType::kBool ? !i->value : ~i->value);
    }
    return call.fn == Intrinsic::kAbs || call.fn == Intrinsic::kNot;
  }
  const auto* f = first.as<FloatImm>();
  if (!f) return false;
  switch (call.fn) {
    case Intrinsic::kAbs:
    case Intrinsic::kFloor:
    case Intrinsic::kCeil:
    case Intrinsic::kTrunc:
    case Intrinsic::kRound:
    case Intrinsic::kSqrt:
      *result = FloatImm::make(first.dtype(), fold_unary(call.fn, first.dtype(), f->value));
      return true;
    case Intrinsic::kIsNan:
      *result = IntImm::make(DType::kBool, std::isnan(f->value));
      return true;
    case Intrinsic::kIsInf:
      *result = IntImm::make(DType::kBool, std::isinf(f->value));
      return true;
    case Intrinsic::kFma: {
      const auto* b = call.args[1].as<FloatImm>();
      const auto* c = call.args[2].as<FloatImm>();
      if (!b || !c) return false;
      *result = fold_fma(first.dtype(), f->value, b->value, c->value);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace tessera::ir
