#include <algorithm>
#include <string>

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/ops.h"
#include "tessera/backend/codegen/llvm/vector_math.h"
#include "tessera/machine/target/matrix_instructions.h"

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
      return dot(call, 4, args);
    case Intrinsic::kDot2:
      return dot(call, 2, args);
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
  if (!native && compute_type(t.dtype) != t.dtype) {
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

// By its name without the types of overloads.
unsigned Ops::intrinsic_named(const std::string& name) {
#if LLVM_VERSION_MAJOR >= 20
  const llvm::Intrinsic::ID id = llvm::Intrinsic::lookupIntrinsicID(name);
#else
  const llvm::Intrinsic::ID id = llvm::Function::lookupIntrinsicID(name);
#endif
  TESSERA_CHECK(id != llvm::Intrinsic::not_intrinsic, "LLVM has no {}", name);
  return id;
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

// One instruction of the target for a product of the call's types; null: it has none.
Value* Ops::native_product(const ir::Call& call, const std::vector<Value*>& args) {
  const DType a = call.args[1].dtype(), b = call.args[2].dtype();
  const auto* row = target::find_matrix(target_, ir::to_text(call.fn), a, b);
  if (!row) return nullptr;
  const target::Signs signs = target::signs_of(a, b);
  const auto emit = [&](target::Signs s) { return row->emit[static_cast<std::size_t>(s)]; };
  const bool swap = signs == target::Signs::kMixed && a == DType::kI8;  // unsigned comes first
  if (row->operands == target::Operands::kVectors) {
    if (swap) return nullptr;
    const unsigned id = intrinsic_named(std::string(emit(signs)));
    std::vector<llvm::Type*> overloads;
    if (llvm::Intrinsic::isOverloaded(static_cast<llvm::Intrinsic::ID>(id)))
      overloads = {args[0]->getType(), args[1]->getType()};
    return native(id, overloads, args);
  }
  int bytes = std::max(target_.vector_bytes, row->least_bytes);
  while (bytes >= row->least_bytes && call.type.lanes % (bytes / 4) != 0) bytes /= 2;
  if (bytes < row->least_bytes) return nullptr;
  const unsigned id = intrinsic_named(fmt::format(fmt::runtime(emit(signs)), 8 * bytes));
  const auto run = [&](Value* acc, Value* first, Value* second) {
    return native_chunks(id, bytes / 4, {acc, first, second});
  };
  if (swap) return run(args[0], args[2], args[1]);
  const bool offset_signs = signs == target::Signs::kSigned && !is_float(call.type.dtype) &&
                            emit(signs) == emit(target::Signs::kMixed);
  if (!offset_signs) return run(args[0], args[1], args[2]);
  // The instruction wants one unsigned side: a + 128 is, and 128 * sum(b) is taken off again (all
  // modulo 2^32).
  llvm::Constant* offset = llvm::ConstantInt::get(args[1]->getType(), 0x80);
  Value* shifted = run(args[0], b_.CreateXor(args[1], offset), args[2]);
  Value* excess = run(llvm::Constant::getNullValue(args[0]->getType()), offset, args[2]);
  return b_.CreateSub(shifted, excess);
}

Value* Ops::dot(const ir::Call& call, int group, const std::vector<Value*>& args) {
  if (Value* r = native_product(call, args)) return r;
  Value* p = products(call.args[1].type(), call.type.dtype, args[1], call.args[2].type(), args[2]);
  return sum_groups(args[0], p, group, is_float(call.type.dtype));
}

Value* Ops::mma(const ir::Call& call, const std::vector<Value*>& args) {
  const ir::Type ta = call.args[1].type();
  const ir::Type tb = call.args[2].type();
  if (Value* r = native_product(call, args)) return r;
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
  return sum_groups(args[0], p, width, is_float(call.type.dtype));
}

}  // namespace tessera::codegen
