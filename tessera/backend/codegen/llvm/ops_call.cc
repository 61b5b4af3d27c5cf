#include <string>

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/ops.h"
#include "tessera/backend/codegen/llvm/vector_math.h"

namespace tessera::codegen {

using ir::Intrinsic;
using llvm::Value;

namespace {

// The name in libm, without the f of the float version.
const char* libm_name(Intrinsic fn) {
  switch (fn) {
    case Intrinsic::kExp:
      return "exp";
    case Intrinsic::kLog:
      return "log";
    case Intrinsic::kTanh:
      return "tanh";
    case Intrinsic::kErf:
      return "erf";
    case Intrinsic::kSin:
      return "sin";
    case Intrinsic::kCos:
      return "cos";
    case Intrinsic::kTan:
      return "tan";
    case Intrinsic::kAsin:
      return "asin";
    case Intrinsic::kAcos:
      return "acos";
    case Intrinsic::kAtan:
      return "atan";
    case Intrinsic::kSinh:
      return "sinh";
    case Intrinsic::kCosh:
      return "cosh";
    case Intrinsic::kAsinh:
      return "asinh";
    case Intrinsic::kAcosh:
      return "acosh";
    case Intrinsic::kAtanh:
      return "atanh";
    case Intrinsic::kPow:
      return "pow";
    default:
      return nullptr;
  }
}

unsigned rounding_intrinsic(Intrinsic fn) {
  switch (fn) {
    case Intrinsic::kSqrt:
      return llvm::Intrinsic::sqrt;
    case Intrinsic::kAbs:
      return llvm::Intrinsic::fabs;
    case Intrinsic::kFloor:
      return llvm::Intrinsic::floor;
    case Intrinsic::kCeil:
      return llvm::Intrinsic::ceil;
    case Intrinsic::kRound:
      return llvm::Intrinsic::roundeven;
    case Intrinsic::kTrunc:
      return llvm::Intrinsic::trunc;
    case Intrinsic::kFma:
      return llvm::Intrinsic::fma;
    default:
      return llvm::Intrinsic::not_intrinsic;
  }
}

std::vector<int> iota(int begin, int count, int step = 1) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(begin + i * step);
  return out;
}

int lanes_of(Value* v) {
  const auto* t = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return t ? static_cast<int>(t->getNumElements()) : 1;
}

}  // namespace

Value* Ops::call(const ir::Call& call, const std::vector<Value*>& args) {
  const ir::Type from = call.args[0].type();
  switch (call.fn) {
    case Intrinsic::kNot:
      return b_.CreateNot(args[0]);
    case Intrinsic::kIsNan:
    case Intrinsic::kIsInf:
      return classify(call.fn, from, args[0]);
    case Intrinsic::kBitcast:
      if (from.dtype == DType::kBool || call.type.dtype == DType::kBool) return nullptr;
      return b_.CreateBitCast(args[0], type(call.type));
    case Intrinsic::kDot4:
      return dot4(call, args);
    case Intrinsic::kDot2:
      return dot2(call, args);
    case Intrinsic::kMma2x8:
    case Intrinsic::kMma2x4:
      return mma(call, args);
    case Intrinsic::kPrefetch:
      return nullptr;
    default:
      return math(call.fn, from, args);
  }
}

Value* Ops::classify(Intrinsic fn, ir::Type t, Value* v) {
  if (!is_float(t.dtype)) return llvm::Constant::getNullValue(type(t.with_dtype(DType::kBool)));
  Value* x = widen(t, v);
  if (fn == Intrinsic::kIsNan) return b_.CreateFCmpUNO(x, x);
  return b_.CreateFCmpOEQ(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x),
                          llvm::ConstantFP::getInfinity(x->getType()));
}

Value* Ops::math(Intrinsic fn, ir::Type t, const std::vector<Value*>& args) {
  if (!is_float(t.dtype)) {
    if (fn != Intrinsic::kAbs) return nullptr;
    if (!is_signed_int(t.dtype)) return args[0];
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, args[0], b_.getInt1(false));
  }
  const bool native = t.dtype == DType::kF16 && native_half() && fn == Intrinsic::kFma;
  if (!native && (t.dtype == DType::kF16 || t.dtype == DType::kBF16)) {
    std::vector<Value*> wide;
    for (Value* arg : args) wide.push_back(widen(t, arg));
    Value* r = math(fn, t.with_dtype(DType::kF32), wide);
    return r ? narrow(t, r) : nullptr;
  }
  if (fn == Intrinsic::kSqrt && t.dtype == DType::kF32) return square_root(b_, target_, args[0]);
  const unsigned id = rounding_intrinsic(fn);
  if (id == llvm::Intrinsic::not_intrinsic) {
    Value* fast = t.dtype == DType::kF32 ? vector_math(b_, target_, fn, args[0]) : nullptr;
    return fast ? fast : libm(fn, t, args);
  }
  return b_.CreateIntrinsic(static_cast<llvm::Intrinsic::ID>(id), {args[0]->getType()}, args);
}

Value* Ops::libm(Intrinsic fn, ir::Type t, const std::vector<Value*>& args) {
  const char* name = libm_name(fn);
  if (!name || !target_.row().has_libm) return nullptr;
  llvm::Type* scalar = type(t.with_lanes(1));
  auto* signature =
      llvm::FunctionType::get(scalar, std::vector<llvm::Type*>(args.size(), scalar), false);
  llvm::FunctionCallee callee = module_.getOrInsertFunction(
      std::string(name) + (t.dtype == DType::kF32 ? "f" : ""), signature);
  if (auto* function = llvm::dyn_cast<llvm::Function>(callee.getCallee())) {
    function->setDoesNotThrow();
    function->setDoesNotAccessMemory();  // errno is not observed
    function->addFnAttr(llvm::Attribute::WillReturn);
  }
  Value* result = t.lanes == 1 ? nullptr : llvm::PoisonValue::get(type(t));
  for (int lane = 0; lane < t.lanes; ++lane) {
    std::vector<Value*> scalars;
    for (Value* arg : args) scalars.push_back(shuffle(arg, {lane}));
    Value* r = b_.CreateCall(callee, scalars);
    result = t.lanes == 1 ? r : b_.CreateInsertElement(result, r, static_cast<std::uint64_t>(lane));
  }
  return result;
}

Value* Ops::native(unsigned intrinsic, const std::vector<llvm::Type*>& overloads,
                   const std::vector<Value*>& args) {
  const auto id = static_cast<llvm::Intrinsic::ID>(intrinsic);
#if LLVM_VERSION_MAJOR >= 20
  llvm::Function* function = llvm::Intrinsic::getOrInsertDeclaration(&module_, id, overloads);
#else
  llvm::Function* function = llvm::Intrinsic::getDeclaration(&module_, id, overloads);
#endif
  std::vector<Value*> typed;
  for (std::size_t i = 0; i < args.size(); ++i) {
    typed.push_back(b_.CreateBitCast(
        args[i], function->getFunctionType()->getParamType(static_cast<unsigned>(i))));
  }
  return b_.CreateCall(function, typed);
}

// Applies an (acc, a, b) intrinsic to pieces of `lanes` accumulators and joins the results.
Value* Ops::native_chunks(unsigned intrinsic, int lanes, const std::vector<Value*>& args) {
  const int total = lanes_of(args[0]);
  const int group = lanes_of(args[1]) / total;
  Value* joined = nullptr;
  for (int begin = 0; begin < total; begin += lanes) {
    Value* acc = shuffle(args[0], iota(begin, lanes));
    Value* a = shuffle(args[1], iota(begin * group, lanes * group));
    Value* b = shuffle(args[2], iota(begin * group, lanes * group));
    std::vector<llvm::Type*> overloads;
    if (llvm::Intrinsic::isOverloaded(static_cast<llvm::Intrinsic::ID>(intrinsic))) {
      llvm::Type* operand = a->getType();
      if (args[0]->getType()->isFPOrFPVectorTy()) {
        operand =
            llvm::FixedVectorType::get(b_.getBFloatTy(), static_cast<unsigned>(lanes * group));
      }
      overloads = {acc->getType(), operand};
    }
    Value* r = native(intrinsic, overloads, {acc, a, b});
    if (!joined) {
      joined = r;
    } else {  // widen the new piece to the length of what is there, then append it
      std::vector<int> pad = iota(0, begin);
      for (int i = lanes; i < begin; ++i) pad[static_cast<std::size_t>(i)] = -1;
      joined = b_.CreateShuffleVector(joined, shuffle(r, pad), iota(0, begin + lanes));
    }
  }
  return joined;
}

Value* Ops::products(ir::Type t, DType wide, Value* a, ir::Type tb, Value* b) {
  Value* x = cast(t, wide, a);
  Value* y = cast(tb, wide, b);
  return is_float(wide) ? b_.CreateFMul(x, y) : b_.CreateMul(x, y);
}

Value* Ops::sum_groups(Value* acc, Value* products, int group, bool is_float) {
  const int lanes = lanes_of(acc);
  for (int q = 0; q < group; ++q) {
    Value* part = shuffle(products, iota(q, lanes, group));
    acc = is_float ? b_.CreateFAdd(acc, part) : b_.CreateAdd(acc, part);
  }
  return acc;
}

Value* Ops::dot4_x86(bool signed_a, bool signed_b, const std::vector<Value*>& args) {
  if (!signed_a && !signed_b) return nullptr;
  const int native_lanes = target_.vector_bytes >= 64 && lanes_of(args[0]) % 16 == 0  ? 16
                           : target_.vector_bytes >= 32 && lanes_of(args[0]) % 8 == 0 ? 8
                           : lanes_of(args[0]) % 4 == 0                               ? 4
                                                                                      : 0;
  if (native_lanes == 0) return nullptr;
  const unsigned id = native_lanes == 16  ? llvm::Intrinsic::x86_avx512_vpdpbusd_512
                      : native_lanes == 8 ? llvm::Intrinsic::x86_avx512_vpdpbusd_256
                                          : llvm::Intrinsic::x86_avx512_vpdpbusd_128;
  if (!signed_a) return native_chunks(id, native_lanes, args);
  if (!signed_b) return native_chunks(id, native_lanes, {args[0], args[2], args[1]});
  // vpdpbusd wants one unsigned side: a + 128 is, and 128 * sum(b) is taken off again (all modulo
  // 2^32).
  llvm::Constant* offset = llvm::ConstantInt::get(args[1]->getType(), 0x80);
  Value* shifted =
      native_chunks(id, native_lanes, {args[0], b_.CreateXor(args[1], offset), args[2]});
  Value* excess = native_chunks(
      id, native_lanes, {llvm::Constant::getNullValue(args[0]->getType()), offset, args[2]});
  return b_.CreateSub(shifted, excess);
}

Value* Ops::dot4(const ir::Call& call, const std::vector<Value*>& args) {
  const ir::Type ta = call.args[1].type();
  const ir::Type tb = call.args[2].type();
  const bool sa = ta.dtype == DType::kI8;
  const bool sb = tb.dtype == DType::kI8;
  const int lanes = call.type.lanes;
  if (target_.arch == target::Arch::kAArch64 && lanes % 2 == 0) {
    const int piece = lanes % 4 == 0 ? 4 : 2;
    if (target_.has_i8_dot && sa == sb) {
      const unsigned id =
          sa ? llvm::Intrinsic::aarch64_neon_sdot : llvm::Intrinsic::aarch64_neon_udot;
      return native_chunks(id, piece, args);
    }
    if (target_.has_i8_mma && sa != sb) {
      const std::vector<Value*> ordered =
          sa ? std::vector<Value*>{args[0], args[2], args[1]} : args;
      return native_chunks(llvm::Intrinsic::aarch64_neon_usdot, piece, ordered);
    }
  }
  if (target_.arch == target::Arch::kX86_64 && target_.has_i8_dot) {
    if (Value* r = dot4_x86(sa, sb, args)) return r;
  }
  return sum_groups(args[0], products(ta, DType::kI32, args[1], tb, args[2]), 4, false);
}

Value* Ops::dot2(const ir::Call& call, const std::vector<Value*>& args) {
  const int lanes = call.type.lanes;
  if (target_.has_bf16_dot && target_.arch == target::Arch::kAArch64 && lanes % 2 == 0) {
    return native_chunks(llvm::Intrinsic::aarch64_neon_bfdot, lanes % 4 == 0 ? 4 : 2, args);
  }
  if (target_.has_bf16_dot && target_.arch == target::Arch::kX86_64 && lanes % 4 == 0) {
    if (target_.vector_bytes >= 64 && lanes % 16 == 0) {
      return native_chunks(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, 16, args);
    }
    if (target_.vector_bytes >= 32 && lanes % 8 == 0) {
      return native_chunks(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256, 8, args);
    }
    return native_chunks(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128, 4, args);
  }
  const ir::Type t = call.args[1].type();
  return sum_groups(args[0], products(t, DType::kF32, args[1], t, args[2]), 2, true);
}

Value* Ops::mma(const ir::Call& call, const std::vector<Value*>& args) {
  const ir::Type ta = call.args[1].type();
  const ir::Type tb = call.args[2].type();
  const bool is_float = call.fn == Intrinsic::kMma2x4;
  if (target_.arch == target::Arch::kAArch64) {
    if (is_float && target_.has_bf16_mma)
      return native(llvm::Intrinsic::aarch64_neon_bfmmla, {}, args);
    if (!is_float && target_.has_i8_mma) {
      const bool sa = ta.dtype == DType::kI8;
      const bool sb = tb.dtype == DType::kI8;
      const std::vector<llvm::Type*> overloads = {args[0]->getType(), args[1]->getType()};
      if (sa && sb) return native(llvm::Intrinsic::aarch64_neon_smmla, overloads, args);
      if (!sa && !sb) return native(llvm::Intrinsic::aarch64_neon_ummla, overloads, args);
      if (!sa) return native(llvm::Intrinsic::aarch64_neon_usmmla, overloads, args);
    }
  }
  // acc[2*i + j] needs row i of a and row j of b: lay the rows out as a0 a0 a1 a1 and b0 b1 b0 b1.
  const int width = ta.lanes / 2;
  std::vector<int> rows_a;
  std::vector<int> rows_b;
  for (int lane = 0; lane < 4; ++lane) {
    for (int q = 0; q < width; ++q) {
      rows_a.push_back(lane / 2 * width + q);
      rows_b.push_back(lane % 2 * width + q);
    }
  }
  const int total = 4 * width;
  Value* p = products(ta.with_lanes(total), call.type.dtype, shuffle(args[1], rows_a),
                      tb.with_lanes(total), shuffle(args[2], rows_b));
  return sum_groups(args[0], p, width, is_float);
}

}  // namespace tessera::codegen
