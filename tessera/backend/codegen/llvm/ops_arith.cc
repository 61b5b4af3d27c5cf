#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/gpu_dialect.h"
#include "tessera/backend/codegen/llvm/ops.h"
#include "tessera/backend/codegen/llvm/vector_math.h"
#include "tessera/support/float_format.h"

namespace tessera::codegen {

using ir::BinaryOp;
using llvm::Value;

namespace {

llvm::Type* scalar_type(llvm::LLVMContext& ctx, DType t) {
  switch (t) {
    case DType::kBool:
      return llvm::Type::getInt1Ty(ctx);
    case DType::kF16:
      return llvm::Type::getHalfTy(ctx);
    case DType::kF32:
      return llvm::Type::getFloatTy(ctx);
    case DType::kF64:
      return llvm::Type::getDoubleTy(ctx);
    default:
      return llvm::Type::getIntNTy(ctx, static_cast<unsigned>(size_bytes(t)) * 8);
  }
}

// Floats that LLVM has no type for here: integers with their bits.
bool is_bits(DType t) { return compute_type(t) != t && t != DType::kF16; }

llvm::Type* with_lanes(llvm::Type* scalar, int lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
}

// The value of a constant (or constant splat) as a signed number.
std::optional<std::int64_t> constant_int(Value* v) {
  if (const auto* c = llvm::dyn_cast<llvm::Constant>(v)) {
    if (v->getType()->isVectorTy()) c = c->getSplatValue();
    if (const auto* i = llvm::dyn_cast_or_null<llvm::ConstantInt>(c)) return i->getSExtValue();
  }
  return std::nullopt;
}

bool is_constant_number(Value* v) {
  const auto* c = llvm::dyn_cast<llvm::Constant>(v);
  if (c && v->getType()->isVectorTy()) c = c->getSplatValue();
  const auto* f = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
  return f && !f->isNaN();
}

// Floats within the limits of an integer type, less `offset`; NaN becomes the least.
Value* within_limits(llvm::IRBuilderBase& b, DType to, Value* v, double offset) {
  const bool sgn = is_signed_int(to);
  const int bits = 8 * size_bytes(to);
  const double least = sgn ? -std::ldexp(1.0, bits - 1) : 0.0;
  const double most = std::ldexp(1.0, sgn ? bits - 1 : bits) - 1;
  Value* low = llvm::ConstantFP::get(v->getType(), least - offset);
  Value* high = llvm::ConstantFP::get(v->getType(), most - offset);
  Value* above = b.CreateSelect(b.CreateFCmpOGT(v, low), v, low);
  return b.CreateSelect(b.CreateFCmpOLT(above, high), above, high);
}

// Floats to integers of one or two bytes, as the intrinsics saturate them: NaN is 0. Of those,
// LLVM takes vectors lane by lane on x86.
Value* saturate(llvm::IRBuilderBase& b, DType to, Value* v) {
  llvm::Type* wide = v->getType()->getWithNewType(b.getInt32Ty());
  llvm::Type* narrow =
      v->getType()->getWithNewType(b.getIntNTy(8 * static_cast<unsigned>(size_bytes(to))));
  Value* out = b.CreateTrunc(b.CreateFPToSI(within_limits(b, to, v, 0), wide), narrow);
  if (!is_signed_int(to)) return out;
  return b.CreateSelect(b.CreateFCmpUNO(v, v), llvm::Constant::getNullValue(narrow), out);
}

}  // namespace

llvm::Type* Ops::type(ir::Type t) const {
  return with_lanes(scalar_type(b_.getContext(), t.dtype), t.lanes);
}

llvm::Type* Ops::memory_type(ir::Type t) const {
  return type(t.dtype == DType::kBool ? t.with_dtype(DType::kU8) : t);
}

llvm::Constant* Ops::int_constant(ir::Type t, std::int64_t v) const {
  return llvm::ConstantInt::get(type(t), static_cast<std::uint64_t>(wrap_int(t.dtype, v)),
                                is_signed_int(t.dtype));
}

llvm::Constant* Ops::float_constant(ir::Type t, double v) const {
  if (is_bits(t.dtype)) {
    const std::uint32_t bits = encode(float_format(t.dtype), static_cast<float>(v));
    return llvm::ConstantInt::get(type(t), bits);
  }
  return llvm::ConstantFP::get(type(t), round_float(t.dtype, v));
}

Value* Ops::to_memory(ir::Type t, Value* v) {
  return t.dtype == DType::kBool ? b_.CreateZExt(v, memory_type(t)) : v;
}

Value* Ops::from_memory(ir::Type t, Value* v) {
  return t.dtype == DType::kBool ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()))
                                 : v;
}

Value* Ops::shuffle(Value* v, const std::vector<int>& lanes) {
  if (lanes.size() == 1) {
    return v->getType()->isVectorTy()
               ? b_.CreateExtractElement(v, static_cast<std::uint64_t>(lanes[0]))
               : v;
  }
  if (!v->getType()->isVectorTy())
    return b_.CreateVectorSplat(static_cast<unsigned>(lanes.size()), v);
  return b_.CreateShuffleVector(v, lanes);
}

Value* Ops::widen(ir::Type from, Value* v) {
  llvm::Type* f32 = type(from.with_dtype(DType::kF32));
  if (from.dtype == DType::kF16) return b_.CreateFPExt(v, f32);
  if (!is_bits(from.dtype)) return v;
  const FloatFormat& f = float_format(from.dtype);
  const ir::Type u32 = from.with_dtype(DType::kU32);
  Value* bits = b_.CreateZExt(v, type(u32));
  const auto shift = static_cast<std::uint64_t>(f.shift());
  if (f.has_range_of_f32()) return b_.CreateBitCast(b_.CreateShl(bits, shift), f32);
  const auto number = [&](std::uint32_t n) { return int_constant(u32, n); };
  Value* magnitude = b_.CreateAnd(bits, number(f.sign() - 1));
  Value* sign =
      b_.CreateShl(b_.CreateXor(bits, magnitude), static_cast<std::uint64_t>(32 - f.bits));
  Value* moved = b_.CreateShl(magnitude, shift);
  Value* tiny =
      b_.CreateFMul(b_.CreateUIToFP(magnitude, f32), llvm::ConstantFP::get(f32, f.smallest()));
  Value* normal = b_.CreateAdd(moved, number(f.rebias()));
  Value* special = f.infinities ? b_.CreateOr(moved, number(0x7f800000)) : number(0x7fc00000);
  Value* is_tiny = b_.CreateICmpULT(magnitude, number(1U << f.fraction_bits()));
  Value* finite = b_.CreateSelect(is_tiny, b_.CreateBitCast(tiny, type(u32)), normal);
  Value* is_special = b_.CreateICmpUGE(magnitude, number(f.overflow()));
  return b_.CreateBitCast(b_.CreateOr(b_.CreateSelect(is_special, special, finite), sign), f32);
}

// One instruction instead of ten, where subnormals may become zeros. Null: not for these lanes.
Value* Ops::narrow_natively(ir::Type to, Value* v) {
  constexpr int kLanes = 16;
  const bool native = to.dtype == DType::kBF16 && flushes_ &&
                      target_.arch == target::Arch::kX86_64 && target_.has_bf16_dot;
  if (!native || (to.lanes != kLanes && to.lanes != 2 * kLanes)) return nullptr;
  if (to.lanes == kLanes) {
    const unsigned one = intrinsic_named("llvm.x86.avx512bf16.cvtneps2bf16.512");
    return b_.CreateBitCast(this->native(one, {}, {v}), type(to));
  }
  std::vector<int> low(kLanes), high(kLanes);
  std::iota(low.begin(), low.end(), 0);
  std::iota(high.begin(), high.end(), kLanes);
  const unsigned two = intrinsic_named("llvm.x86.avx512bf16.cvtne2ps2bf16.512");
  return b_.CreateBitCast(this->native(two, {}, {shuffle(v, high), shuffle(v, low)}), type(to));
}

Value* Ops::narrow(ir::Type to, Value* v) {
  if (to.dtype == DType::kF16) return b_.CreateFPTrunc(v, type(to));
  if (!is_bits(to.dtype)) return v;
  if (Value* rounded = narrow_natively(to, v)) return rounded;
  const FloatFormat& f = float_format(to.dtype);
  const ir::Type u32 = to.with_dtype(DType::kU32);
  const auto number = [&](std::uint32_t n) { return int_constant(u32, n); };
  const auto shift = static_cast<std::uint64_t>(f.shift());
  const std::uint32_t half = (1U << (shift - 1)) - 1;
  Value* bits = b_.CreateBitCast(v, type(u32));
  Value* odd = b_.CreateAnd(b_.CreateLShr(bits, shift), number(1));
  if (f.has_range_of_f32()) {
    Value* rounded = b_.CreateAdd(bits, b_.CreateAdd(odd, number(half)));
    Value* quiet = b_.CreateOr(bits, number(0x400000));
    return upper_half(to, b_.CreateSelect(b_.CreateFCmpUNO(v, v), quiet, rounded));
  }
  // As encode() of float_format.h, all cases at once.
  Value* magnitude = b_.CreateAnd(bits, number(0x7fffffff));
  Value* sign =
      b_.CreateLShr(b_.CreateXor(bits, magnitude), static_cast<std::uint64_t>(32 - f.bits));
  Value* rounded = b_.CreateAdd(magnitude, b_.CreateAdd(odd, number(half - f.rebias())));
  Value* limited = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateLShr(rounded, shift),
                                            number(f.overflow()));
  llvm::Constant* one = number(f.subnormal_one());
  Value* sum =
      b_.CreateFAdd(b_.CreateBitCast(magnitude, v->getType()), b_.CreateBitCast(one, v->getType()));
  Value* tiny = b_.CreateSub(b_.CreateBitCast(sum, type(u32)), one);
  Value* is_tiny = b_.CreateICmpULT(magnitude, number(f.rebias() + 0x800000));
  Value* finite = b_.CreateSelect(is_tiny, tiny, limited);
  Value* payload = b_.CreateLShr(b_.CreateAnd(magnitude, number(0x7fffff)), shift);
  Value* nan = f.infinities ? b_.CreateOr(payload, number(f.nan())) : number(f.nan());
  Value* kept = b_.CreateSelect(b_.CreateFCmpUNO(v, v), nan, finite);
  return b_.CreateTrunc(b_.CreateOr(kept, sign), type(to));
}

// The bf16 that an f32, or its bits, has in its upper half.
Value* Ops::upper_half(ir::Type to, Value* v) {
  Value* bits = b_.CreateBitCast(v, type(to.with_dtype(DType::kU32)));
  return b_.CreateTrunc(b_.CreateLShr(bits, 16), type(to));
}

Value* Ops::binary(BinaryOp op, ir::Type operands, Value* a, Value* b, bool non_negative) {
  if (is_float(operands.dtype)) return float_binary(op, operands, a, b);
  return int_binary(op, operands, a, b, non_negative);
}

Value* Ops::compare(BinaryOp op, ir::Type t, Value* a, Value* b) {
  const bool fp = is_float(t.dtype);
  const bool sgn = is_signed_int(t.dtype);
  switch (op) {
    case BinaryOp::kEq:
      return fp ? b_.CreateFCmpOEQ(a, b) : b_.CreateICmpEQ(a, b);
    case BinaryOp::kNe:
      return fp ? b_.CreateFCmpUNE(a, b) : b_.CreateICmpNE(a, b);
    case BinaryOp::kLt:
      return fp ? b_.CreateFCmpOLT(a, b) : sgn ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
    default:
      return fp ? b_.CreateFCmpOLE(a, b) : sgn ? b_.CreateICmpSLE(a, b) : b_.CreateICmpULE(a, b);
  }
}

Value* Ops::float_binary(BinaryOp op, ir::Type t, Value* a, Value* b) {
  // Half + - * / rounded once equals the same in f32 rounded twice: f32 has more than 2*11+2 bits.
  const bool wide =
      is_bits(t.dtype) || (t.dtype == DType::kF16 && (!native_half() || op == BinaryOp::kMod));
  if (wide) {
    Value* r = float_binary(op, t.with_dtype(DType::kF32), widen(t, a), widen(t, b));
    if (ir::is_comparison(op) || !r) return r;
    const bool exact = op == BinaryOp::kMin || op == BinaryOp::kMax;
    return exact && t.dtype == DType::kBF16 ? upper_half(t, r) : narrow(t, r);
  }
  switch (op) {
    case BinaryOp::kAdd:
      return b_.CreateFAdd(a, b);
    case BinaryOp::kSub:
      return b_.CreateFSub(a, b);
    case BinaryOp::kMul:
      return b_.CreateFMul(a, b);
    case BinaryOp::kDiv:
      return t.dtype == DType::kF32 ? quotient(b_, target_, a, b) : b_.CreateFDiv(a, b);
    case BinaryOp::kMod:
      // LLVM's way around the lack of fmod on GPUs is not exact.
      return target_.row().has_libm ? b_.CreateFRem(a, b) : nullptr;
    case BinaryOp::kMin:
      return float_min_max(false, a, b);
    case BinaryOp::kMax:
      return float_min_max(true, a, b);
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kLe:
      return compare(op, t, a, b);
    default:
      return nullptr;
  }
}

Value* Ops::float_min_max(bool is_max, Value* a, Value* b) {
  const GpuDialect* dialect = gpu_dialect(target_);
  const bool gpu_has =
      dialect && dialect->keeps_nan(target_) && !a->getType()->getScalarType()->isDoubleTy();
  if (target_.arch == target::Arch::kAArch64 || gpu_has) {
    return b_.CreateBinaryIntrinsic(is_max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a,
                                    b);
  }
  // minps/maxps return the second operand when either is NaN: with a number first, that alone is
  // right. Otherwise `a` comes second, what a reduction has so far: the test of `b` need not wait
  // for it.
  if (!is_constant_number(a)) std::swap(a, b);
  Value* better = is_max ? b_.CreateFCmpOGT(a, b) : b_.CreateFCmpOLT(a, b);
  Value* r = b_.CreateSelect(better, a, b);
  if (is_constant_number(a)) return r;
  // One masked instruction where there are masks; or else ones in every bit, which are NaN.
  if (target_.vector_bytes >= 64 || !a->getType()->isVectorTy())
    return b_.CreateSelect(b_.CreateFCmpORD(a, a), r, a);
  llvm::Type* bits =
      a->getType()->getWithNewType(b_.getIntNTy(a->getType()->getScalarSizeInBits()));
  Value* ones = b_.CreateSExt(b_.CreateFCmpUNO(a, a), bits);
  return b_.CreateBitCast(b_.CreateOr(b_.CreateBitCast(r, bits), ones), a->getType());
}

Value* Ops::int_binary(BinaryOp op, ir::Type t, Value* a, Value* b, bool non_negative) {
  const bool sgn = is_signed_int(t.dtype);
  switch (op) {
    case BinaryOp::kAdd:
      return t.dtype == DType::kBool ? b_.CreateOr(a, b) : b_.CreateAdd(a, b);
    case BinaryOp::kSub:
      return t.dtype == DType::kBool ? b_.CreateXor(a, b) : b_.CreateSub(a, b);
    case BinaryOp::kMul:
      return b_.CreateMul(a, b);
    case BinaryOp::kMin:
      return b_.CreateBinaryIntrinsic(sgn ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a, b);
    case BinaryOp::kMax:
      return b_.CreateBinaryIntrinsic(sgn ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a, b);
    case BinaryOp::kAnd:
      return b_.CreateAnd(a, b);
    case BinaryOp::kOr:
      return b_.CreateOr(a, b);
    case BinaryOp::kXor:
      return b_.CreateXor(a, b);
    case BinaryOp::kShl:
    case BinaryOp::kShr: {
      Value* n = b_.CreateAnd(b, int_constant(t, size_bytes(t.dtype) * 8 - 1));
      if (op == BinaryOp::kShl) return b_.CreateShl(a, n);
      return sgn ? b_.CreateAShr(a, n) : b_.CreateLShr(a, n);
    }
    case BinaryOp::kDiv:
    case BinaryOp::kMod:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return t.dtype == DType::kBool ? nullptr : int_division(op, t, a, b, non_negative);
    default:
      return compare(op, t, a, b);
  }
}

Value* Ops::floor_fix(BinaryOp op, Value* a, Value* b, Value* quotient) {
  Value* rest = b_.CreateSub(a, b_.CreateMul(quotient, b));
  llvm::Constant* zero = llvm::Constant::getNullValue(a->getType());
  Value* below =
      b_.CreateAnd(b_.CreateICmpNE(rest, zero), b_.CreateICmpSLT(b_.CreateXor(rest, b), zero));
  if (op == BinaryOp::kFloorDiv) return b_.CreateAdd(quotient, b_.CreateSExt(below, a->getType()));
  return b_.CreateAdd(rest, b_.CreateSelect(below, b, zero));
}

Value* Ops::constant_division(BinaryOp op, ir::Type t, Value* a, std::int64_t d,
                              bool non_negative) {
  const bool floors = op == BinaryOp::kFloorDiv || op == BinaryOp::kFloorMod;
  const bool divides = op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv;
  const bool sgn = is_signed_int(t.dtype) && !(non_negative && d > 0);
  llvm::Constant* divisor = llvm::ConstantInt::get(type(t), static_cast<std::uint64_t>(d), true);
  if (sgn && d == -1) return divides ? b_.CreateNeg(a) : llvm::Constant::getNullValue(a->getType());
  if (d > 0 && std::has_single_bit(static_cast<std::uint64_t>(d)) && (floors || !sgn)) {
    const auto shift = static_cast<std::uint64_t>(std::countr_zero(static_cast<std::uint64_t>(d)));
    if (!divides)
      return b_.CreateAnd(a, llvm::ConstantInt::get(type(t), static_cast<std::uint64_t>(d - 1)));
    return sgn ? b_.CreateAShr(a, shift) : b_.CreateLShr(a, shift);
  }
  if (!sgn) return divides ? b_.CreateUDiv(a, divisor) : b_.CreateURem(a, divisor);
  if (floors) return floor_fix(op, a, divisor, b_.CreateSDiv(a, divisor));
  return divides ? b_.CreateSDiv(a, divisor) : b_.CreateSRem(a, divisor);
}

Value* Ops::int_division(BinaryOp op, ir::Type t, Value* a, Value* b, bool non_negative) {
  if (const auto d = constant_int(b)) {
    if (*d == 0) return llvm::Constant::getNullValue(a->getType());
    return constant_division(op, t, a, *d, non_negative);
  }
  const bool divides = op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv;
  const bool sgn = is_signed_int(t.dtype);
  llvm::Constant* zero = llvm::Constant::getNullValue(a->getType());
  llvm::Constant* one = llvm::ConstantInt::get(a->getType(), 1);
  Value* by_zero = b_.CreateICmpEQ(b, zero);
  Value* traps = by_zero;
  if (sgn) {  // INT_MIN / -1 wraps to INT_MIN, which is INT_MIN / 1
    const unsigned bits = a->getType()->getScalarSizeInBits();
    llvm::Constant* lowest =
        llvm::ConstantInt::get(a->getType(), llvm::APInt::getSignedMinValue(bits));
    Value* overflows =
        b_.CreateAnd(b_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(a->getType())),
                     b_.CreateICmpEQ(a, lowest));
    traps = b_.CreateOr(by_zero, overflows);
  }
  Value* divisor = b_.CreateSelect(traps, one, b);
  Value* r = nullptr;
  if (!sgn) {
    r = divides ? b_.CreateUDiv(a, divisor) : b_.CreateURem(a, divisor);
  } else if (op == BinaryOp::kFloorDiv || op == BinaryOp::kFloorMod) {
    r = floor_fix(op, a, divisor, b_.CreateSDiv(a, divisor));
  } else {
    r = divides ? b_.CreateSDiv(a, divisor) : b_.CreateSRem(a, divisor);
  }
  return b_.CreateSelect(by_zero, zero, r);
}

Value* Ops::limited(DType to, Value* v) {
  Value* out = within_limits(b_, to, v, 0);
  if (!is_signed_int(to)) return out;
  return b_.CreateSelect(b_.CreateFCmpUNO(v, v), llvm::Constant::getNullValue(v->getType()), out);
}

Value* Ops::cast_rounded(ir::Type from, DType to, std::int64_t offset, Value* v) {
  constexpr int kLanes = 16;
  const bool has = target_.arch == target::Arch::kX86_64 && target_.vector_bytes == 4 * kLanes;
  if (!has || to != DType::kU8 || from.lanes % kLanes != 0) return nullptr;
  Value* within = within_limits(b_, to, v, static_cast<double>(offset));
  const unsigned convert = intrinsic_named("llvm.x86.avx512.mask.cvtps2dq.512");
  const ir::Type i32 = from.with_dtype(DType::kI32).with_lanes(kLanes);
  constexpr int kAllLanes = 0xffff, kCurrentRounding = 4;
  std::vector<Value*> parts;
  for (int at = 0; at < from.lanes; at += kLanes) {
    std::vector<int> lanes(kLanes);
    std::iota(lanes.begin(), lanes.end(), at);
    parts.push_back(
        native(convert, {},
               {from.lanes == kLanes ? within : shuffle(within, lanes), int_constant(i32, 0),
                b_.getInt16(kAllLanes), b_.getInt32(kCurrentRounding)}));
  }
  Value* whole = llvm::concatenateVectors(b_, parts);
  if (offset != 0) whole = b_.CreateAdd(whole, int_constant(from.with_dtype(DType::kI32), offset));
  return b_.CreateTrunc(whole, type(from.with_dtype(to)));
}

Value* Ops::cast(ir::Type from, DType to, Value* v) {
  const ir::Type result = from.with_dtype(to);
  if (from.dtype == to) return v;
  if (compute_type(from.dtype) != from.dtype) {
    return cast(from.with_dtype(DType::kF32), to, widen(from, v));
  }
  if (compute_type(to) != to) return narrow(result, cast(from, DType::kF32, v));
  llvm::Type* type_to = type(result);
  llvm::Constant* zero = llvm::Constant::getNullValue(v->getType());
  if (is_float(from.dtype)) {
    if (to == DType::kBool) return b_.CreateFCmpUNE(v, zero);
    if (is_float(to)) return b_.CreateFPCast(v, type_to);
    if (from.lanes > 1 && size_bytes(to) <= 2) return saturate(b_, to, v);
    const auto id = is_signed_int(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b_.CreateIntrinsic(id, {type_to, v->getType()}, {v});
  }
  if (to == DType::kBool) return b_.CreateICmpNE(v, zero);
  if (is_float(to))
    return is_signed_int(from.dtype) ? b_.CreateSIToFP(v, type_to) : b_.CreateUIToFP(v, type_to);
  return b_.CreateIntCast(v, type_to, is_signed_int(from.dtype));
}

}  // namespace tessera::codegen
