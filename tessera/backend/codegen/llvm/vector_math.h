// f32 elementary functions as straight-line LLVM code for any number of lanes.
#pragma once

#include "tessera/lang/ir/expr.h"
#include "tessera/machine/target/target.h"

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace tessera::codegen {

// Largest error of the code on CPUs with FMA, in units in the last place of the exact result; found
// by running all 2^32 inputs. On NVIDIA GPUs tanh has up to two more.
inline constexpr double kExpUlps = 2;
inline constexpr double kLogUlps = 1.1;
inline constexpr double kTanhUlps = 2.6;
inline constexpr double kErfUlps = 1.8;

// exp, log, tanh and erf of an f32 scalar or vector; null for every other function.
// NaN gives NaN, tanh and erf keep the sign of zero and saturate at +-1, log(0) is -inf, log of a
// negative number NaN; denormal inputs count. exp is inf above 88.72284 and 0 below -87.68312
// (2^-126.5); the denormal results between are rounded once more, to within one denormal step.
llvm::Value* vector_math(llvm::IRBuilderBase& builder, const target::Target& target,
                         ir::Intrinsic fn, llvm::Value* x);

// a / b and the square root of f32, scalar or vector. On NVIDIA GPUs, where the exactly rounded
// ones are calls, within two units in the last place; as OpenCL has them.
llvm::Value* quotient(llvm::IRBuilderBase& builder, const target::Target& target, llvm::Value* a,
                      llvm::Value* b);
llvm::Value* square_root(llvm::IRBuilderBase& builder, const target::Target& target,
                         llvm::Value* x);

}  // namespace tessera::codegen
