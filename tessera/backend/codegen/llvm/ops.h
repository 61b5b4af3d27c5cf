// The meaning of single operations of the loop IR as LLVM instructions, without control flow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/lang/ir/expr.h"
#include "tessera/machine/target/target.h"

namespace llvm {
class Constant;
class Function;
class IRBuilderBase;
class Module;
class Type;
class Value;
}  // namespace llvm

namespace tessera::codegen {

// Values in registers: bool is i1, f16 is half, narrower and other short floats are integers with
// their bits, everything else as named.
class Ops {
 public:
  Ops(llvm::IRBuilderBase& builder, llvm::Module& module, const target::Target& target)
      : b_(builder), module_(module), target_(target) {}

  llvm::Type* type(ir::Type t) const;
  llvm::Type* memory_type(ir::Type t) const;  // as type(), but bool is i8

  llvm::Constant* int_constant(ir::Type t, std::int64_t v) const;
  llvm::Constant* float_constant(ir::Type t, double v) const;
  llvm::Value* to_memory(ir::Type t, llvm::Value* v);
  llvm::Value* from_memory(ir::Type t, llvm::Value* v);
  llvm::Value* shuffle(llvm::Value* v, const std::vector<int>& lanes);  // one lane gives a scalar

  // `operands` is the type of a and b. non_negative: both are known to be >= 0.
  llvm::Value* binary(ir::BinaryOp op, ir::Type operands, llvm::Value* a, llvm::Value* b,
                      bool non_negative);
  llvm::Value* cast(ir::Type from, DType to, llvm::Value* v);
  // A whole number as it comes back from the integer type.
  llvm::Value* limited(DType to, llvm::Value* v);
  // cast(round(v) + offset) by an instruction that rounds; null: the target has none for it.
  llvm::Value* cast_rounded(ir::Type from, DType to, std::int64_t offset, llvm::Value* v);
  // Every intrinsic except kPrefetch. Null when the operand types have no meaning for it.
  llvm::Value* call(const ir::Call& call, const std::vector<llvm::Value*>& args);

  // bf16 may lose its subnormals, as it does in products of tiles.
  void flush_subnormals() { flushes_ = true; }

  // An intrinsic of LLVM, by its name without the types of overloads, and a call of it.
  static unsigned intrinsic_named(const std::string& name);
  llvm::Value* native(unsigned intrinsic, const std::vector<llvm::Type*>& overloads,
                      const std::vector<llvm::Value*>& args);

 private:
  llvm::Value* widen(ir::Type from, llvm::Value* v);  // short floats -> f32
  llvm::Value* narrow(ir::Type to, llvm::Value* v);   // f32 -> short floats
  llvm::Value* narrow_natively(ir::Type to, llvm::Value* v);
  llvm::Value* upper_half(ir::Type to, llvm::Value* v);
  bool native_half() const { return target_.has_f16; }

  llvm::Value* float_binary(ir::BinaryOp op, ir::Type t, llvm::Value* a, llvm::Value* b);
  llvm::Value* float_min_max(bool is_max, llvm::Value* a, llvm::Value* b);
  llvm::Value* int_binary(ir::BinaryOp op, ir::Type t, llvm::Value* a, llvm::Value* b,
                          bool non_negative);
  llvm::Value* int_division(ir::BinaryOp op, ir::Type t, llvm::Value* a, llvm::Value* b,
                            bool non_negative);
  llvm::Value* constant_division(ir::BinaryOp op, ir::Type t, llvm::Value* a, std::int64_t d,
                                 bool non_negative);
  llvm::Value* floor_fix(ir::BinaryOp op, llvm::Value* a, llvm::Value* b, llvm::Value* quotient);
  llvm::Value* compare(ir::BinaryOp op, ir::Type t, llvm::Value* a, llvm::Value* b);

  llvm::Value* math(ir::Intrinsic fn, ir::Type t, const std::vector<llvm::Value*>& args);
  llvm::Value* libm(ir::Intrinsic fn, ir::Type t, const std::vector<llvm::Value*>& args);
  llvm::Value* classify(ir::Intrinsic fn, ir::Type t, llvm::Value* v);
  llvm::Value* native_product(const ir::Call& call, const std::vector<llvm::Value*>& args);
  llvm::Value* dot(const ir::Call& call, int group, const std::vector<llvm::Value*>& args);
  llvm::Value* mma(const ir::Call& call, const std::vector<llvm::Value*>& args);
  llvm::Value* products(ir::Type t, DType wide, llvm::Value* a, ir::Type tb, llvm::Value* b);
  llvm::Value* sum_groups(llvm::Value* acc, llvm::Value* products, int group, bool is_float);
  llvm::Value* native_chunks(unsigned intrinsic, int lanes, const std::vector<llvm::Value*>& args);

  llvm::IRBuilderBase& b_;
  llvm::Module& module_;
  const target::Target& target_;
  bool flushes_ = false;
};

}  // namespace tessera::codegen
