// Matrix products of a warp: tensor cores.
#include <array>
#include <string>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/emitter.h"
#include "tessera/machine/target/matrix_instructions.h"

namespace tessera::codegen {

using llvm::Value;

namespace {

constexpr int kRowBytes = 16;

const char* ptx_type(DType t) {
  switch (t) {
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kI8:
      return "s8";
    case DType::kU8:
      return "u8";
    default:
      return "tf32";
  }
}

}  // namespace

// Loads through LLVM's intrinsic, which it knows to read memory only: equal ones become one.
Value* Emitter::emit_matrix(const ir::Call& call) {
  const auto* load = call.args[0].as<ir::Load>();
  const auto place = place_of(load->buffer, load->indices);
  const int lanes = call.type.lanes;
  const bool rows =
      place && place->stride == 1 && align_bytes(load->buffer, place->base, lanes) >= kRowBytes;
  if (!rows) {
    return fail(ErrorCode::kIllegalSchedule,
                fmt::format("rows of {} for tensor cores do not begin at multiples of {} bytes "
                            "(storage_align)",
                            load->buffer->name, kRowBytes),
                call.type);
  }
  Value* address = pointer(load->buffer, place->base);
  const auto id = call.fn == ir::Intrinsic::kMatrixRows
                      ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16
                      : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16;
  llvm::CallInst* loaded = b_.CreateIntrinsic(id, {address->getType()}, {address});
  annotate(loaded, load->buffer);
  Value* pieces =
      llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getInt32Ty(), kRowBytes / 4));
  for (unsigned i = 0; i < kRowBytes / 4; ++i)
    pieces = b_.CreateInsertElement(pieces, b_.CreateExtractValue(loaded, {i}), i);
  return b_.CreateBitCast(pieces, ops_.type(call.type));
}

// The 32-bit pieces of an operand; f32 rounded as tensor cores take it.
std::vector<Value*> Emitter::matrix_pieces(const ir::Expr& operand) {
  const auto count = static_cast<unsigned>(operand.lanes() * size_bytes(operand.dtype()) / 4);
  Value* all = b_.CreateBitCast(emit(operand), llvm::FixedVectorType::get(b_.getInt32Ty(), count));
  std::vector<Value*> out;
  for (unsigned i = 0; i < count; ++i) {
    Value* piece = b_.CreateExtractElement(all, i);
    if (operand.dtype() == DType::kF32) {
      auto* round = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getInt32Ty()}, false);
      piece = b_.CreateCall(llvm::InlineAsm::get(round, "cvt.rna.tf32.f32 $0, $1;", "=r,r", false),
                            {piece});
    }
    out.push_back(piece);
  }
  return out;
}

Value* Emitter::emit_mma(const ir::Call& call) {
  const DType a = call.args[1].dtype(), b = call.args[2].dtype();
  const int depth = 32 / size_bytes(a);
  if (!target::find_matrix(target_, target::Operands::kFragments, a, b)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} has no tensor cores for products of 16 x 8 x {} in {}",
                            target_.name, depth, to_text(a)),
                call.type);
  }
  const bool is_int = call.type.dtype == DType::kI32;
  std::vector<Value*> args = matrix_pieces(call.args[1]);
  for (Value* piece : matrix_pieces(call.args[2])) args.push_back(piece);
  Value* sums = emit(call.args[0]);
  for (unsigned i = 0; i < 4; ++i) args.push_back(b_.CreateExtractElement(sums, i));
  llvm::Type* element = is_int ? b_.getInt32Ty() : b_.getFloatTy();
  auto* result = llvm::StructType::get(b_.getContext(), {element, element, element, element});
  std::vector<llvm::Type*> types;
  types.reserve(args.size());
  for (const Value* arg : args) types.push_back(arg->getType());
  const char* acc = is_int ? "s32" : "f32";
  // No side effects: threads that leave out a product whose result nobody wants all do so.
  const std::string text = fmt::format(
      "mma.sync.aligned.m16n8k{}.row.col.{}.{}.{}.{} {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, "
      "$9}}, {{$10, $11, $12, $13}};",
      depth, acc, ptx_type(a), ptx_type(b), acc);
  const char* constraints =
      is_int ? "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r" : "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f";
  llvm::CallInst* product = b_.CreateCall(
      llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text, constraints, false),
      args);
  product->addFnAttr(llvm::Attribute::Convergent);
  Value* out = llvm::PoisonValue::get(ops_.type(call.type));
  for (unsigned i = 0; i < 4; ++i)
    out = b_.CreateInsertElement(out, b_.CreateExtractValue(product, {i}), i);
  return out;
}

}  // namespace tessera::codegen
