#include "tessera/backend/codegen/llvm/vector_math.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/gpu_dialect.h"

namespace tessera::codegen {
namespace {

using llvm::Value;

// Polynomials are minimax fits of the named quotient over the named interval,
// weighted for the relative error of the final result, with coefficients tuned
// as f32 numbers; lowest power first.

// (exp(r) - 1 - r) / r^2, r in [-ln2/2, ln2]; the upper half serves only the
// last octave before overflow and has 1.7 times the error of the rest, 3.2e-8.
constexpr std::array<double, 5> kExp = {0x1.000044p-1, 0x1.555636p-3, 0x1.54fb38p-5, 0x1.113aaap-7,
                                        0x1.a53c88p-10};

// (log(1 + f) - f) / f^2, f in [-1/3, 1/3]; error 1.6e-8.
constexpr std::array<double, 9> kLog = {-0.5,           0x1.555508p-2,  -0x1.000414p-2,
                                        0x1.99d1a0p-3,  -0x1.53ef60p-3, 0x1.1eb0fap-3,
                                        -0x1.112d6cp-3, 0x1.1f3d6ap-3,  -0x1.414d68p-4};

// ((exp(2r) - 1) / 2 - r) / r^2, |r| <= ln2/4; error 1.4e-8.
constexpr std::array<double, 5> kHalfExpm1 = {0x1.fffffep-1, 0x1.5554aap-1, 0x1.55579cp-2,
                                              0x1.122c52p-3, 0x1.6abafap-5};

// erf(x) / x - 1 in powers of x^2, |x| <= 0.875; error 1.4e-8.
constexpr std::array<double, 6> kErfSmall = {0x1.06eba6p-3,  -0x1.8126eep-2, 0x1.ce1c28p-4,
                                             -0x1.b6aa28p-6, 0x1.48177ep-8,  -0x1.3e4728p-11};

// log2(1 - erf(a)), a in [0.875, 4]; error 1.9e-9 of erf.
constexpr std::array<double, 7> kErfcLog2 = {-0x1.951086p-13, -0x1.a0947ep+0, -0x1.d6558ep-1,
                                             -0x1.343e16p-3,  0x1.08f55ap-5,  -0x1.2455f0p-8,
                                             0x1.2fff8cp-12};

// -2^r, |r| <= 1/2; error 1.2e-7, which reaches erf divided by at least 4.
constexpr std::array<double, 6> kMinusExp2 = {-0x1.000002p+0, -0x1.62e434p-1, -0x1.ebf804p-3,
                                              -0x1.c6a76cp-5, -0x1.3d5dc8p-7, -0x1.6365c4p-10};

constexpr double kLog2E = 0x1.715476p+0;
// ln2 in two parts, the first of 15 bits: its product with an exponent is exact
// without FMA too.
constexpr double kLn2High = 0x1.62e4p-1;
constexpr double kLn2Low = 0x1.7f7d1cp-20;
constexpr double kLn2 = 0x1.62e430p-1;

// Adding this rounds a small number to an integer n and leaves n + 127, the
// exponent field of 2^n, in the low bits of the sum.
constexpr double kRound = 0x1.8p23 + 127;
constexpr int kMantissaBits = 23;
constexpr double kErfSplit = 0.875;

// The constants of exp as AArch64 reads them: factors four to a register, since
// a multiplication can take any lane; addends, which the instruction
// overwrites, each as a vector to be loaded anew.
constexpr int kTableLanes = 4;
constexpr const char* kTableName = "tsr.exp_constants";
constexpr std::array<double, 8> kExpFactors = {kLog2E,  -kLn2High, -kLn2Low, kExp[1],
                                               kExp[3], kExp[4],   0,        0};
constexpr std::array<double, 3> kExpAddends = {kRound, kExp[0], kExp[2]};

class VectorMath {
 public:
  VectorMath(llvm::IRBuilderBase& b, const target::Target& target, Value* x)
      : b_(b), target_(target), x_(x), type_(x->getType()) {
    int_type_ = type_->getWithNewType(b.getInt32Ty());
  }

  Value* exp();
  Value* log();
  Value* tanh();
  Value* erf();

 private:
  Value* number(double v) const { return llvm::ConstantFP::get(type_, v); }
  Value* integer(std::int32_t v) const {
    return llvm::ConstantInt::get(int_type_, static_cast<std::uint64_t>(v), true);
  }
  // A constant that is multiplied, and one to which a product is added.
  Value* factor(double v);
  Value* addend(double v);
  void use_table(Value* x);
  Value* row(Value* table, std::size_t index);
  Value* hidden(const std::vector<Value*>& values);

  Value* bits(Value* v) { return b_.CreateBitCast(v, int_type_); }
  Value* from_bits(Value* v) { return b_.CreateBitCast(v, type_); }
  Value* copysign(Value* magnitude) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, x_);
  }

  Value* fma(Value* a, Value* b, Value* c);
  Value* at_most(Value* v, double limit);
  Value* at_least(Value* v, double limit);
  Value* polynomial(std::span<const double> coefficients, Value* v);
  // 2^n of n = rounded - kRound, n in [-127, 127]; -127 gives zero.
  Value* power_of_two(Value* rounded) {
    return from_bits(b_.CreateShl(bits(rounded), integer(kMantissaBits)));
  }

  llvm::IRBuilderBase& b_;
  const target::Target& target_;
  Value* x_;
  llvm::Type* type_;
  llvm::Type* int_type_;
  std::array<Value*, 2> factors_ = {};
  Value* addends_ = nullptr;
};

// The first value, with LLVM not knowing that it is the first, nor that it does
// not change when others do.
Value* VectorMath::hidden(const std::vector<Value*>& values) {
  std::vector<llvm::Type*> types;
  for (const Value* v : values) types.push_back(v->getType());
  auto* signature = llvm::FunctionType::get(types[0], types, false);
  llvm::CallInst* call = b_.CreateCall(
      llvm::InlineAsm::get(signature, "", values.size() == 1 ? "=r,0" : "=r,0,w", false), values);
  call->setDoesNotAccessMemory();
  call->setDoesNotThrow();
  call->addFnAttr(llvm::Attribute::WillReturn);
  return call;
}

Value* VectorMath::row(Value* table, std::size_t index) {
  Value* address = b_.CreateConstGEP1_32(type_, table, static_cast<unsigned>(index));
  llvm::LoadInst* load = b_.CreateAlignedLoad(type_, address, llvm::Align(16));
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(b_.getContext(), {}));
  return load;
}

// On AArch64 a product is added to a register that it overwrites, so a constant
// there costs a copy, which takes the place of an operation; a load does not.
// The address of the addends seems to depend on x, which keeps their loads from
// being merged and from being moved out of the loop.
void VectorMath::use_table(Value* x) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(type_);
  if (target_.arch != target::Arch::kAArch64 || !type || type->getNumElements() != kTableLanes)
    return;
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  llvm::GlobalVariable* table = module->getGlobalVariable(kTableName, true);
  if (!table) {
    std::vector<float> numbers(kExpFactors.begin(), kExpFactors.end());
    for (const double v : kExpAddends)
      numbers.insert(numbers.end(), kTableLanes, static_cast<float>(v));
    llvm::Constant* data = llvm::ConstantDataArray::get(b_.getContext(), numbers);
    table = new llvm::GlobalVariable(*module, data->getType(), true,
                                     llvm::GlobalValue::PrivateLinkage, data, kTableName);
    table->setAlignment(llvm::Align(64));
  }
  Value* base = hidden({table});
  for (std::size_t i = 0; i < factors_.size(); ++i) factors_[i] = row(base, i);
  addends_ = hidden({base, x});
}

Value* VectorMath::factor(double v) {
  const auto* found = std::find(kExpFactors.begin(), kExpFactors.end(), v);
  if (!addends_ || found == kExpFactors.end()) return number(v);
  const auto at = found - kExpFactors.begin();
  return b_.CreateShuffleVector(factors_[static_cast<std::size_t>(at / kTableLanes)],
                                std::vector<int>(kTableLanes, static_cast<int>(at % kTableLanes)));
}

Value* VectorMath::addend(double v) {
  const auto* found = std::find(kExpAddends.begin(), kExpAddends.end(), v);
  if (!addends_ || found == kExpAddends.end()) return number(v);
  return row(addends_, factors_.size() + static_cast<std::size_t>(found - kExpAddends.begin()));
}

Value* VectorMath::fma(Value* a, Value* b, Value* c) {
  if (!target_.has_fma) return b_.CreateFAdd(b_.CreateFMul(a, b), c);
  return b_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {a, b, c});
}

// NaN stays NaN: as fmin does, and as minps does with the limit as its first
// operand.
Value* VectorMath::at_most(Value* v, double limit) {
  if (target_.arch == target::Arch::kAArch64)
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, v, number(limit));
  return b_.CreateSelect(b_.CreateFCmpOLT(number(limit), v), number(limit), v);
}

Value* VectorMath::at_least(Value* v, double limit) {
  if (target_.arch == target::Arch::kAArch64)
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, v, number(limit));
  return b_.CreateSelect(b_.CreateFCmpOGT(number(limit), v), number(limit), v);
}

// Pairs c[i] + c[i+1] v, then Horner's rule in v^2: half as many constants are
// addends as in plain Horner, and each of those costs AArch64 a register copy.
Value* VectorMath::polynomial(std::span<const double> coefficients, Value* v) {
  const auto pair = [&](std::size_t i) {
    return i + 1 < coefficients.size()
               ? fma(v, factor(coefficients[i + 1]), addend(coefficients[i]))
               : factor(coefficients[i]);
  };
  Value* square = b_.CreateFMul(v, v);
  std::size_t i = (coefficients.size() - 1) / 2 * 2;
  Value* sum = pair(i);
  while (i > 0) {
    i -= 2;
    sum = fma(square, sum, pair(i));
  }
  return sum;
}

// exp(x) = 2^n exp(r). The exponent stops at 127, so that just below overflow r
// goes on to ln2 and 2^127 exp(r) is still in range; beyond, the polynomial
// grows and the product becomes inf.
Value* VectorMath::exp() {
  Value* x = at_least(x_, -88.0);
  use_table(x);
  Value* rounded = at_most(fma(x, factor(kLog2E), addend(kRound)), kRound + 127);
  Value* n = b_.CreateFSub(rounded, number(kRound));
  Value* r = fma(n, factor(-kLn2High), x);
  r = fma(n, factor(-kLn2Low), r);
  Value* scale = power_of_two(rounded);
  return fma(scale, fma(b_.CreateFMul(r, r), polynomial(kExp, r), r), scale);
}

// x = 2^k (1 + f) with 1 + f in [2/3, 4/3), so that k is 0 around 1, where
// nothing may cancel.
Value* VectorMath::log() {
  constexpr std::int32_t kTwoThirds = 0x3f2aaaab;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Value* is_small = b_.CreateFCmpOLT(x_, number(std::numeric_limits<float>::min()));
  Value* normal = b_.CreateSelect(is_small, b_.CreateFMul(x_, number(0x1p23)), x_);
  Value* shifted = b_.CreateSub(bits(normal), integer(kTwoThirds));
  Value* k = b_.CreateAShr(shifted, integer(kMantissaBits));
  Value* f = from_bits(b_.CreateSub(bits(normal), b_.CreateShl(k, integer(kMantissaBits))));
  f = b_.CreateFSub(f, number(1));
  k = b_.CreateAdd(k, b_.CreateSelect(is_small, integer(-kMantissaBits), integer(0)));
  Value* y = fma(b_.CreateFMul(f, f), polynomial(kLog, f), f);
  y = fma(b_.CreateSIToFP(k, type_), number(kLn2), y);
  y = b_.CreateSelect(b_.CreateFCmpOLT(x_, number(kInf)), y, x_);
  Value* none = b_.CreateSelect(b_.CreateFCmpOEQ(x_, number(0)), number(-kInf),
                                llvm::ConstantFP::getNaN(type_));
  return b_.CreateSelect(b_.CreateFCmpUGT(x_, number(0)), y, none);
}

// tanh(x) = e / (e + 1) with e = (exp(2x) - 1) / 2 = 2^n t + (2^n - 1) / 2: for
// small x, n is 0 and e has the relative accuracy of t; for large x, errors of
// e fade. Negative x would double them.
Value* VectorMath::tanh() {
  Value* x = at_most(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x_), 10);
  Value* rounded = fma(x, number(2 * kLog2E), number(kRound));
  Value* n = b_.CreateFSub(rounded, number(kRound));
  Value* r = fma(n, number(-kLn2High / 2), x);
  r = fma(n, number(-kLn2Low / 2), r);
  Value* t = fma(b_.CreateFMul(r, r), polynomial(kHalfExpm1, r), r);
  Value* scale = power_of_two(rounded);
  Value* e = fma(scale, t, fma(scale, number(0.5), number(-0.5)));
  return copysign(quotient(b_, target_, e, b_.CreateFAdd(e, number(1))));
}

// An odd polynomial near zero, 1 - 2^(log2(1 - erf)) elsewhere.
Value* VectorMath::erf() {
  Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x_);
  Value* small = fma(x_, polynomial(kErfSmall, b_.CreateFMul(x_, x_)), x_);
  Value* power = polynomial(kErfcLog2, at_most(magnitude, 4));
  Value* rounded = b_.CreateFAdd(power, number(kRound));
  Value* r = b_.CreateFSub(power, b_.CreateFSub(rounded, number(kRound)));
  Value* large = fma(power_of_two(rounded), polynomial(kMinusExp2, r), number(1));
  return b_.CreateSelect(b_.CreateFCmpOLT(magnitude, number(kErfSplit)), small, copysign(large));
}

}  // namespace

Value* quotient(llvm::IRBuilderBase& builder, const target::Target& target, Value* a, Value* b) {
  const GpuDialect* dialect = gpu_dialect(target);
  return dialect ? dialect->quotient(builder, a, b) : builder.CreateFDiv(a, b);
}

Value* square_root(llvm::IRBuilderBase& builder, const target::Target& target, Value* x) {
  const GpuDialect* dialect = gpu_dialect(target);
  return dialect ? dialect->square_root(builder, x)
                 : builder.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
}

Value* vector_math(llvm::IRBuilderBase& builder, const target::Target& target, ir::Intrinsic fn,
                   Value* x) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(builder);
  builder.clearFastMathFlags();  // the rounding of every step is part of the method
  VectorMath math(builder, target, x);
  switch (fn) {
    case ir::Intrinsic::kExp:
      return math.exp();
    case ir::Intrinsic::kLog:
      return math.log();
    case ir::Intrinsic::kTanh:
      return math.tanh();
    case ir::Intrinsic::kErf:
      return math.erf();
    default:
      return nullptr;
  }
}

}  // namespace tessera::codegen
