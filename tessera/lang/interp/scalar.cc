#include "tessera/lang/interp/scalar.h"

#include <bit>
#include <cmath>
#include <limits>

#include "tessera/support/check.h"
#include "tessera/support/float_format.h"

namespace tessera::interp {
namespace {

using ir::BinaryOp;
using ir::Intrinsic;
using U64 = std::uint64_t;

U64 u(std::int64_t v) { return static_cast<U64>(v); }
std::int64_t s(U64 v) { return static_cast<std::int64_t>(v); }

template <class T>
T min_or_max(bool want_min, T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (want_min) return b < a ? b : a;
  return a < b ? b : a;
}

template <class T>
Scalar float_op(BinaryOp op, DType t, T a, T b) {
  const auto rounded = [&](T v) { return of_float(round_float(t, v)); };
  switch (op) {
    case BinaryOp::kAdd:
      return rounded(a + b);
    case BinaryOp::kSub:
      return rounded(a - b);
    case BinaryOp::kMul:
      return rounded(a * b);
    case BinaryOp::kDiv:
      return rounded(a / b);
    case BinaryOp::kMod:
      return rounded(std::fmod(a, b));
    case BinaryOp::kMin:
      return rounded(min_or_max(true, a, b));
    case BinaryOp::kMax:
      return rounded(min_or_max(false, a, b));
    case BinaryOp::kEq:
      return of_int(a == b);
    case BinaryOp::kNe:
      return of_int(a != b);
    case BinaryOp::kLt:
      return of_int(a < b);
    case BinaryOp::kLe:
      return of_int(a <= b);
    default:
      break;
  }
  TESSERA_CHECK(false, "{} on floats", ir::to_text(op));
  return of_float(0);
}

struct Quotient {
  std::int64_t quotient, remainder;
};

// Towards zero. Of i64: the most negative number over -1 wraps to itself.
Quotient divide(DType t, std::int64_t a, std::int64_t b) {
  if (b == 0) return {0, 0};
  if (t == DType::kU64) return {s(u(a) / u(b)), s(u(a) % u(b))};
  if (b == -1) return {s(0 - u(a)), 0};
  return {a / b, a % b};
}

std::int64_t shift_right(DType t, std::int64_t a, unsigned amount) {
  return t == DType::kU64 ? s(u(a) >> amount)
                          : a >> amount;  // narrower unsigned values are not negative
}

// Rounded down rather than towards zero.
Quotient floor_divide(DType t, std::int64_t a, std::int64_t b) {
  const Quotient q = divide(t, a, b);
  const bool below = is_signed_int(t) && q.remainder != 0 && (q.remainder < 0) != (b < 0);
  return below ? Quotient{q.quotient - 1, q.remainder + b} : q;
}

bool less(DType t, std::int64_t a, std::int64_t b) {
  return t == DType::kU64 ? u(a) < u(b) : a < b;
}

unsigned shift_amount(DType t, std::int64_t b) {
  return static_cast<unsigned>(u(b) % (8 * static_cast<U64>(size_bytes(t))));
}

std::int64_t int_op(BinaryOp op, DType t, std::int64_t a, std::int64_t b) {
  switch (op) {
    case BinaryOp::kAdd:
      return s(u(a) + u(b));
    case BinaryOp::kSub:
      return s(u(a) - u(b));
    case BinaryOp::kMul:
      return s(u(a) * u(b));
    case BinaryOp::kDiv:
      return divide(t, a, b).quotient;
    case BinaryOp::kMod:
      return divide(t, a, b).remainder;
    case BinaryOp::kFloorDiv:
      return floor_divide(t, a, b).quotient;
    case BinaryOp::kFloorMod:
      return floor_divide(t, a, b).remainder;
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
      return s(u(a) << shift_amount(t, b));
    case BinaryOp::kShr:
      return shift_right(t, a, shift_amount(t, b));
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return less(t, a, b);
    case BinaryOp::kLe:
      return !less(t, b, a);
  }
  TESSERA_CHECK(false, "unknown operator");
  return 0;
}

std::int64_t float_to_int(DType to, double v) {
  if (to == DType::kBool) return v != 0 ? 1 : 0;
  if (std::isnan(v)) return 0;
  const int bits = 8 * size_bytes(to);
  const bool is_signed = is_signed_int(to);
  const double end = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // first value above the range
  const double cut = std::trunc(v);
  if (cut >= end) return s(~U64{0} >> (64 - bits + (is_signed ? 1 : 0)));
  if (!is_signed) return cut <= 0 ? 0 : s(static_cast<U64>(cut));
  return cut < -end ? std::numeric_limits<std::int64_t>::min() >> (64 - bits)
                    : static_cast<std::int64_t>(cut);
}

double int_to_float(DType from, DType to, std::int64_t v) {
  const bool big = from == DType::kU64;
  if (to == DType::kF64) return big ? static_cast<double>(u(v)) : static_cast<double>(v);
  return round_float(to, big ? static_cast<float>(u(v)) : static_cast<float>(v));
}

double float_unary(Intrinsic fn, double v) {
  switch (fn) {
    case Intrinsic::kExp:
      return std::exp(v);
    case Intrinsic::kLog:
      return std::log(v);
    case Intrinsic::kTanh:
      return std::tanh(v);
    case Intrinsic::kErf:
      return std::erf(v);
    case Intrinsic::kSqrt:
      return std::sqrt(v);
    case Intrinsic::kSin:
      return std::sin(v);
    case Intrinsic::kCos:
      return std::cos(v);
    case Intrinsic::kTan:
      return std::tan(v);
    case Intrinsic::kAsin:
      return std::asin(v);
    case Intrinsic::kAcos:
      return std::acos(v);
    case Intrinsic::kAtan:
      return std::atan(v);
    case Intrinsic::kSinh:
      return std::sinh(v);
    case Intrinsic::kCosh:
      return std::cosh(v);
    case Intrinsic::kAsinh:
      return std::asinh(v);
    case Intrinsic::kAcosh:
      return std::acosh(v);
    case Intrinsic::kAtanh:
      return std::atanh(v);
    case Intrinsic::kAbs:
      return std::fabs(v);
    case Intrinsic::kFloor:
      return std::floor(v);
    case Intrinsic::kCeil:
      return std::ceil(v);
    case Intrinsic::kRound:
      return std::nearbyint(v);  // the default rounding mode is half to even
    case Intrinsic::kTrunc:
      return std::trunc(v);
    default:
      break;
  }
  TESSERA_CHECK(false, "{} is not a function of one float", ir::to_text(fn));
  return 0;
}

std::int64_t int_unary(Intrinsic fn, DType t, std::int64_t v) {
  switch (fn) {
    case Intrinsic::kAbs:
      return is_signed_int(t) && v < 0 ? wrap_int(t, s(0 - u(v))) : v;
    case Intrinsic::kNot:
      return t == DType::kBool ? 1 - v : wrap_int(t, ~v);
    case Intrinsic::kFloor:
    case Intrinsic::kCeil:
    case Intrinsic::kRound:
    case Intrinsic::kTrunc:
      return v;
    default:
      break;
  }
  TESSERA_CHECK(false, "{} is not a function of one integer", ir::to_text(fn));
  return 0;
}

U64 to_bits(DType t, Scalar v) {
  if (!is_float(t) || t == DType::kF64) return u(v.i);  // f64 shares its bits with the union
  if (t == DType::kF32) return std::bit_cast<std::uint32_t>(static_cast<float>(v.f));
  return encode(float_format(t), static_cast<float>(v.f));
}

}  // namespace

Scalar binary(BinaryOp op, DType t, Scalar a, Scalar b) {
  if (t == DType::kF64) return float_op(op, t, a.f, b.f);
  if (is_float(t)) return float_op(op, t, static_cast<float>(a.f), static_cast<float>(b.f));
  const std::int64_t result = int_op(op, t, a.i, b.i);
  return of_int(ir::is_comparison(op) ? result : wrap_int(t, result));
}

Scalar convert(DType from, DType to, Scalar v) {
  if (is_float(from)) {
    if (is_float(to)) return of_float(round_float(to, v.f));
    return of_int(float_to_int(to, v.f));
  }
  if (is_float(to)) return of_float(int_to_float(from, to, v.i));
  return of_int(wrap_int(to, v.i));
}

Scalar unary(Intrinsic fn, DType t, Scalar v) {
  if (fn == Intrinsic::kIsNan) return of_int(std::isnan(v.f));
  if (fn == Intrinsic::kIsInf) return of_int(std::isinf(v.f));
  if (is_float(t)) return of_float(round_float(t, float_unary(fn, v.f)));
  return of_int(int_unary(fn, t, v.i));
}

Scalar power(DType t, Scalar a, Scalar b) { return of_float(round_float(t, std::pow(a.f, b.f))); }

Scalar fused_multiply_add(DType t, Scalar a, Scalar b, Scalar c) {
  if (!is_float(t)) return binary(BinaryOp::kAdd, t, binary(BinaryOp::kMul, t, a, b), c);
  if (t == DType::kF64) return of_float(std::fma(a.f, b.f, c.f));
  const float sum =
      std::fma(static_cast<float>(a.f), static_cast<float>(b.f), static_cast<float>(c.f));
  return of_float(round_float(t, sum));
}

Scalar bitcast(DType from, DType to, Scalar v) {
  const U64 bits = to_bits(from, v);
  if (!is_float(to)) return of_int(wrap_int(to, s(bits)));
  if (to == DType::kF64) return of_float(std::bit_cast<double>(bits));
  if (to == DType::kF32) return of_float(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  return of_float(decode(float_format(to), static_cast<std::uint32_t>(bits)));
}

}  // namespace tessera::interp
