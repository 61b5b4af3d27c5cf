#include "tessera/backend/codegen/llvm/index.h"

#include <algorithm>

#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::BinaryOp;
using ir::Expr;

// Splits `e` (scalar or vector) into base and stride over lanes. False: not affine in the lane.
bool affine(const Expr& e, std::int64_t scale, Place* place) {
  if (e.lanes() == 1) {
    add_scaled(&place->base, linear_form(e), scale);
    return true;
  }
  if (const auto* ramp = e.as<ir::Ramp>()) {
    add_scaled(&place->base, linear_form(ramp->base), scale);
    place->stride += scale * ramp->stride;
    return true;
  }
  if (const auto* copy = e.as<ir::Broadcast>())
    return copy->value.lanes() == 1 && affine(copy->value, scale, place);
  const auto* binary = e.as<ir::Binary>();
  if (!binary) return false;
  if (binary->op == BinaryOp::kAdd)
    return affine(binary->a, scale, place) && affine(binary->b, scale, place);
  if (binary->op == BinaryOp::kSub)
    return affine(binary->a, scale, place) && affine(binary->b, -scale, place);
  if (binary->op != BinaryOp::kMul) return false;
  if (const auto c = ir::as_const_int(binary->b)) return affine(binary->a, scale * *c, place);
  if (const auto c = ir::as_const_int(binary->a)) return affine(binary->b, scale * *c, place);
  return false;
}

void add_term(Linear* sum, const Expr& factor, std::int64_t coef) {
  const auto same = std::find_if(sum->terms.begin(), sum->terms.end(), [&](const Linear::Term& t) {
    return t.factor.same_as(factor) || ir::equal(t.factor, factor);
  });
  if (same == sum->terms.end()) {
    if (coef != 0) sum->terms.push_back({factor, coef});
    return;
  }
  same->coef += coef;
  if (same->coef == 0) sum->terms.erase(same);
}

void collect(const Expr& e, std::int64_t scale, Linear* sum) {
  if (const auto c = ir::as_const_int(e)) {
    sum->constant += scale * *c;
    return;
  }
  if (const auto* binary = e.as<ir::Binary>()) {
    if (binary->op == BinaryOp::kAdd || binary->op == BinaryOp::kSub) {
      collect(binary->a, scale, sum);
      collect(binary->b, binary->op == BinaryOp::kAdd ? scale : -scale, sum);
      return;
    }
    if (binary->op == BinaryOp::kMul) {
      if (const auto c = ir::as_const_int(binary->b)) return collect(binary->a, scale * *c, sum);
      if (const auto c = ir::as_const_int(binary->a)) return collect(binary->b, scale * *c, sum);
    }
  }
  add_term(sum, e, scale);
}

}  // namespace

void add_scaled(Linear* sum, const Linear& part, std::int64_t scale) {
  sum->constant += scale * part.constant;
  for (const Linear::Term& term : part.terms) add_term(sum, term.factor, scale * term.coef);
}

Linear linear_form(const Expr& scalar) {
  Linear sum;
  collect(scalar, 1, &sum);
  return sum;
}

std::vector<std::int64_t> row_major_strides(const ir::Buffer& buffer) {
  std::vector<std::int64_t> strides(buffer->shape.size(), 1);
  for (std::size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * buffer->shape[d];
  return strides;
}

std::optional<Place> place_of(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
  const std::vector<std::int64_t> strides = row_major_strides(buffer);
  Place place;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (!affine(indices[d], strides[d], &place)) return std::nullopt;
  }
  return place;
}

bool contains_load(const Expr& e) {
  switch (e.kind()) {
    case ir::ExprKind::kIntImm:
    case ir::ExprKind::kFloatImm:
    case ir::ExprKind::kVar:
      return false;
    case ir::ExprKind::kLoad:
      return true;
    case ir::ExprKind::kBinary:
      return contains_load(e.as<ir::Binary>()->a) || contains_load(e.as<ir::Binary>()->b);
    case ir::ExprKind::kSelect: {
      const auto* s = e.as<ir::Select>();
      return contains_load(s->cond) || contains_load(s->on_true) || contains_load(s->on_false);
    }
    case ir::ExprKind::kCast:
      return contains_load(e.as<ir::Cast>()->value);
    case ir::ExprKind::kRamp:
      return contains_load(e.as<ir::Ramp>()->base);
    case ir::ExprKind::kBroadcast:
      return contains_load(e.as<ir::Broadcast>()->value);
    case ir::ExprKind::kShuffle:
      return contains_load(e.as<ir::Shuffle>()->value);
    case ir::ExprKind::kCall: {
      const auto& args = e.as<ir::Call>()->args;
      return std::any_of(args.begin(), args.end(), contains_load);
    }
  }
  return true;
}

bool is_non_negative(const Expr& e) {
  if (is_unsigned_int(e.dtype())) return true;
  if (const auto c = ir::as_const_int(e)) return *c >= 0;
  if (e.dtype() != DType::kI64) return false;  // narrower sums may wrap in practice
  if (e.as<ir::Var>()) return true;
  if (const auto* ramp = e.as<ir::Ramp>()) return ramp->stride >= 0 && is_non_negative(ramp->base);
  if (const auto* copy = e.as<ir::Broadcast>()) return is_non_negative(copy->value);
  const auto* binary = e.as<ir::Binary>();
  if (!binary) return false;
  switch (binary->op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMul:
    case BinaryOp::kDiv:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMin:
      return is_non_negative(binary->a) && is_non_negative(binary->b);
    case BinaryOp::kMod:
      return is_non_negative(binary->a);
    case BinaryOp::kFloorMod:
      return is_non_negative(binary->b);
    case BinaryOp::kMax:
      return is_non_negative(binary->a) || is_non_negative(binary->b);
    default:
      return false;
  }
}

}  // namespace tessera::codegen
