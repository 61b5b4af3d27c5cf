// NVIDIA's words: NVVM intrinsics, and PTX where LLVM has none.
#include <string>

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/gpu_dialect.h"
#include "tessera/lang/ir/group_tile.h"

namespace tessera::codegen {
namespace {

using llvm::Value;
using Builder = GpuDialect::Builder;
using IntrinsicId = llvm::Intrinsic::ID;

// Compute capabilities that brought something.
constexpr int kAsyncCapability = 80, kFetchCapability = 90;

constexpr std::array<unsigned, 3> kBlockIds = {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                               llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                               llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
constexpr std::array<unsigned, 3> kThreadIds = {llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x,
                                                llvm::Intrinsic::nvvm_read_ptx_sreg_tid_y,
                                                llvm::Intrinsic::nvvm_read_ptx_sreg_tid_z};

// "Matrix descriptor" of wgmma in the PTX ISA: where a tile lies, in units of 16 bytes, and how.
constexpr std::uint64_t kUnit = 16;
constexpr std::uint64_t kSwizzle128 = 1ULL << 62;
constexpr unsigned kLeading = 16, kStride = 32;  // bits of the offsets between parts

// Bytes between tiles that lie side by side, and between groups of eight rows.
std::uint64_t layout_of_tile(bool rows) {
  constexpr std::uint64_t kEight = ir::kTileAlign, kTile = 8 * kEight;  // 64 rows
  const std::uint64_t leading = rows ? kUnit : kTile;                   // rows have no second tile
  return kSwizzle128 | (leading / kUnit) << kLeading | (kEight / kUnit) << kStride;
}

// From the operands of one instruction to those of the next, in units: `depth` bytes of each row,
// or as many rows of 128 bytes as they are elements of two bytes.
std::uint64_t depth_step(bool rows, std::uint64_t depth) {
  return (rows ? depth : depth / 2 * 128) / kUnit;
}

std::string numbered(const char* before, std::size_t first, std::size_t count,
                     const char* between = ",") {
  std::string out;
  for (std::size_t i = 0; i < count; ++i)
    out += fmt::format("{}{}{}", i > 0 ? between : "", before, first + i);
  return out;
}

std::string repeated(const char* what, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += fmt::format("{}{}", i > 0 ? "," : "", what);
  return out;
}

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
    case DType::kF8E4M3:
      return "e4m3";
    case DType::kF8E5M2:
      return "e5m2";
    default:
      return "tf32";
  }
}

std::vector<llvm::Type*> types_of(const std::vector<Value*>& values) {
  std::vector<llvm::Type*> types;
  types.reserve(values.size());
  for (const Value* v : values) types.push_back(v->getType());
  return types;
}

// An instruction without a result that LLVM moves nothing across.
llvm::CallInst* emit(Builder& b, const std::string& text, const std::string& constraints = "",
                     const std::vector<Value*>& args = {}) {
  auto* signature = llvm::FunctionType::get(b.getVoidTy(), types_of(args), false);
  const std::string all = constraints.empty() ? "~{memory}" : constraints + ",~{memory}";
  return b.CreateCall(llvm::InlineAsm::get(signature, text, all, /*hasSideEffects=*/true), args);
}

void emit_convergent(Builder& b, const std::string& text) {
  emit(b, text)->addFnAttr(llvm::Attribute::Convergent);
}

// Runs the text with the sums as its first operands, which it may change, and `others` after them
// twice over.
std::vector<Value*> run_on_sums(Builder& b, const std::vector<Value*>& sums,
                                const std::string& text, const std::vector<Value*>& others) {
  std::vector<Value*> args = sums;
  args.insert(args.end(), others.begin(), others.end());
  const std::size_t n = sums.size();
  llvm::Type* type = sums[0]->getType();
  std::string constraints =
      repeated(type->isIntegerTy() ? "=r" : "=f", n) + "," + numbered("", 0, n);
  if (!others.empty()) constraints += "," + repeated("l", others.size());
  auto* result = llvm::StructType::get(b.getContext(), std::vector<llvm::Type*>(n, type));
  llvm::CallInst* call =
      b.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(result, types_of(args), false),
                                        text, constraints + ",~{memory}", /*hasSideEffects=*/true),
                   args);
  call->addFnAttr(llvm::Attribute::Convergent);
  std::vector<Value*> out;
  for (unsigned i = 0; i < n; ++i) out.push_back(b.CreateExtractValue(call, {i}));
  return out;
}

// One instruction for every lane.
Value* each_lane(Builder& b, const char* text, const char* constraints,
                 const std::vector<Value*>& args) {
  llvm::Type* type = args[0]->getType();
  llvm::Type* scalar = type->getScalarType();
  const std::vector<llvm::Type*> types(args.size(), scalar);
  auto* code = llvm::InlineAsm::get(llvm::FunctionType::get(scalar, types, false), text,
                                    constraints, /*hasSideEffects=*/false);
  const auto call = [&](const std::vector<Value*>& of) {
    llvm::CallInst* made = b.CreateCall(code, of);
    made->setDoesNotAccessMemory();  // equal ones become one
    made->setDoesNotThrow();
    return made;
  };
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (!vector) return call(args);
  Value* out = llvm::PoisonValue::get(type);
  for (unsigned i = 0; i < vector->getNumElements(); ++i) {
    std::vector<Value*> one;
    for (Value* arg : args) one.push_back(b.CreateExtractElement(arg, i));
    out = b.CreateInsertElement(out, call(one), i);
  }
  return out;
}

// One thread asks for all bytes of its block: the instruction takes uniform registers, and the
// threads of a warp would take turns.
std::string fetch_text(const ir::Launch& launch) {
  std::string first;  // only the first thread goes on
  for (std::size_t d = 0; d < 3; ++d) {
    if (launch.block[d] == 1) continue;
    first +=
        fmt::format("mov.u32 %ahead_r1, %tid.{};\nsetp.ne.u32 %ahead_p, %ahead_r1, 0;\n", "xyz"[d]);
    first += "@%ahead_p bra FETCHED;\n";
  }
  return fmt::format(
      R"({{
.reg .pred %ahead_p;
.reg .b32 %ahead_r<2>;
.reg .b64 %ahead_d<2>;
setp.eq.u64 %ahead_p, $0, $1;
@%ahead_p bra FETCHED;
{2}mov.u32 %ahead_r0, %ctaid.z;
mov.u32 %ahead_r1, %ctaid.y;
mad.lo.u32 %ahead_r0, %ahead_r0, {1}, %ahead_r1;
mov.u32 %ahead_r1, %ctaid.x;
mad.lo.u32 %ahead_r0, %ahead_r0, {0}, %ahead_r1;
cvt.u64.u32 %ahead_d0, %ahead_r0;
mad.lo.u64 %ahead_d0, %ahead_d0, $2, $0;
setp.ge.u64 %ahead_p, %ahead_d0, $1;
@%ahead_p bra FETCHED;
sub.u64 %ahead_d1, $1, %ahead_d0;
min.u64 %ahead_d1, %ahead_d1, $2;
cvt.u32.u64 %ahead_r1, %ahead_d1;
cp.async.bulk.prefetch.L2.global [%ahead_d0], %ahead_r1;
FETCHED:
}})",
      launch.grid[0], launch.grid[1], first);
}

class Nvvm final : public GpuDialect {
 public:
  unsigned global_space() const override { return 1; }
  unsigned shared_space() const override { return 3; }
  std::int64_t most_static_shared() const override { return 48 << 10; }

  // For every version of LLVM.
  void mark_kernel(llvm::Function* f, const std::array<std::int64_t, 3>& block,
                   std::int64_t at_once) const override {
    llvm::Module* module = f->getParent();
    llvm::LLVMContext& ctx = module->getContext();
    f->setCallingConv(llvm::CallingConv::PTX_Kernel);
    f->addFnAttr("nvvm.maxntid", fmt::format("{},{},{}", block[0], block[1], block[2]));
    std::vector<llvm::Metadata*> facts = {llvm::ValueAsMetadata::get(f)};
    const auto add = [&](const char* name, std::int64_t value) {
      facts.push_back(llvm::MDString::get(ctx, name));
      facts.push_back(llvm::ConstantAsMetadata::get(
          llvm::ConstantInt::get(llvm::Type::getInt32Ty(ctx), static_cast<std::uint64_t>(value))));
    };
    add("kernel", 1);
    add("maxntidx", block[0]);
    add("maxntidy", block[1]);
    add("maxntidz", block[2]);
    if (at_once > 0) {
      add("minctasm", at_once);
      f->addFnAttr("nvvm.minctasm", fmt::format("{}", at_once));
    }
    module->getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(ctx, facts));
  }

  llvm::CallInst* block_id(Builder& b, std::size_t dimension) const override {
    return b.CreateIntrinsic(static_cast<IntrinsicId>(kBlockIds[dimension]), {}, {});
  }
  llvm::CallInst* thread_id(Builder& b, std::size_t dimension) const override {
    return b.CreateIntrinsic(static_cast<IntrinsicId>(kThreadIds[dimension]), {}, {});
  }

  bool fetches(const target::Target& target) const override {
    return target.gpu.capability >= kFetchCapability;
  }
  void fetch(Builder& b, const ir::Launch& launch, Value* begin, Value* end,
             Value* share) const override {
    llvm::Type* number = b.getInt64Ty();
    auto* signature = llvm::FunctionType::get(b.getVoidTy(), {number, number, number}, false);
    b.CreateCall(
        llvm::InlineAsm::get(signature, fetch_text(launch), "l,l,l", /*hasSideEffects=*/true),
        {begin, end, share});
  }
  llvm::Instruction* wait_for_kernel(Builder& b) const override {
    return emit(b, "griddepcontrol.wait;");
  }
  void let_next_start(Builder& b) const override { emit(b, "griddepcontrol.launch_dependents;"); }

  void barrier(Builder& b) const override { emit_convergent(b, "bar.sync 0;"); }

  // Groups of more than a warp have barriers of their own: 0 is that of the block.
  void group_barrier(Builder& b, std::int64_t threads, std::int64_t warp) const override {
    if (threads == warp) return emit_convergent(b, "bar.warp.sync 0xffffffff;");
    emit_convergent(b, fmt::format("{{\n.reg .b32 %group;\nmov.u32 %group, %tid.x;\n"
                                   "div.u32 %group, %group, {0};\nadd.u32 %group, %group, 1;\n"
                                   "bar.sync %group, {0};\n}}",
                                   threads));
  }

  Value* shuffle_xor(Builder& b, Value* word, std::uint32_t mask) const override {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                             {b.getInt32(0xffffffff), word, b.getInt32(mask), b.getInt32(0x1f)});
  }

  bool copies_asynchronously(const target::Target& target, std::int64_t bytes) const override {
    return target.gpu.capability >= kAsyncCapability && (bytes == 4 || bytes == 8 || bytes == 16);
  }
  // LLVM's intrinsics want both addresses of the same width. Only 16 bytes may pass by the L1.
  void async_copy(Builder& b, const Copy& copy) const override {
    std::vector<Value*> args = {b.CreatePtrToInt(copy.to, b.getInt32Ty()),
                                b.CreatePtrToInt(copy.from, b.getInt64Ty())};
    std::string constraints = "r,l", text = fmt::format("cp.async.{}.shared.global [$0], [$1], {}",
                                                        copy.bytes == 16 ? "cg" : "ca", copy.bytes);
    if (copy.wanted) {  // bytes to read; the rest is filled
      args.push_back(b.CreateSelect(copy.wanted, b.getInt32(static_cast<std::uint32_t>(copy.bytes)),
                                    b.getInt32(0)));
      text += ", $2";
      constraints += ",r";
    }
    text += ";";
    if (copy.guard) {
      text = fmt::format("@${} {}", args.size(), text);
      constraints += ",b";
      args.push_back(copy.guard);
    }
    emit(b, text, constraints, args);
  }
  void async_commit(Builder& b, const target::Target& target) const override {
    if (target.gpu.capability >= kAsyncCapability)
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group, {}, {});
  }
  void async_wait(Builder& b, const target::Target& target, std::int64_t groups) const override {
    if (target.gpu.capability < kAsyncCapability) return;
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {},
                      {b.getInt32(static_cast<std::uint32_t>(groups))});
  }

  // LLVM knows that its intrinsic reads memory only: equal ones become one.
  llvm::CallInst* load_matrix(Builder& b, Value* address, bool transposed) const override {
    const auto id = transposed ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16
                               : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16;
    return b.CreateIntrinsic(id, {address->getType()}, {address});
  }

  // Tensor cores take f32 as tf32.
  Value* rounded(Builder& b, DType type, Value* word) const override {
    if (type != DType::kF32) return word;
    auto* round = llvm::FunctionType::get(b.getInt32Ty(), {b.getInt32Ty()}, false);
    return b.CreateCall(llvm::InlineAsm::get(round, "cvt.rna.tf32.f32 $0, $1;", "=r,r", false),
                        {word});
  }

  // No side effects: threads that leave out a product whose result nobody wants all do so.
  std::vector<Value*> multiply(Builder& b, const target::MatrixInstruction& instruction,
                               const Fragments& f) const override {
    std::vector<Value*> args = f.a;
    args.insert(args.end(), f.b.begin(), f.b.end());
    args.insert(args.end(), f.sums.begin(), f.sums.end());
    const char* sum = instruction.sums == DType::kI32 ? "r" : "f";
    const std::size_t sums = f.sums.size(), a = sums, c = a + f.a.size(), d = c + f.b.size();
    const std::string opcode =
        fmt::format(fmt::runtime(instruction.emit[0]), ptx_type(f.a_type), ptx_type(f.b_type));
    const auto list = [](std::size_t first, std::size_t count) {
      return numbered("$", first, count, ", ");
    };
    const std::string text =
        fmt::format("{} {{{}}}, {{{}}}, {{{}}}, {{{}}};", opcode, list(0, sums),
                    list(a, f.a.size()), list(c, f.b.size()), list(d, sums));
    const std::string constraints = repeated(("=" + std::string(sum)).c_str(), sums) + "," +
                                    repeated("r", d - a) + "," + repeated(sum, sums);
    const std::vector<llvm::Type*> results(sums, f.sums[0]->getType());
    auto* result = llvm::StructType::get(b.getContext(), results);
    llvm::CallInst* product =
        b.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(result, types_of(args), false),
                                          text, constraints, false),
                     args);
    product->addFnAttr(llvm::Attribute::Convergent);
    std::vector<Value*> out;
    for (unsigned i = 0; i < sums; ++i) out.push_back(b.CreateExtractValue(product, {i}));
    return out;
  }

  Value* tile(Builder& b, Value* address, bool rows) const override {
    Value* bytes = b.CreatePtrToInt(address, b.getInt32Ty());
    Value* units = b.CreateLShr(b.CreateAnd(bytes, 0x3ffff), b.getInt32(4));
    return b.CreateOr(b.CreateZExt(units, b.getInt64Ty()), b.getInt64(layout_of_tile(rows)));
  }

  std::vector<Value*> multiply_tiles(Builder& b, const target::MatrixInstruction& instruction,
                                     const std::array<Tile, 2>& tiles,
                                     const std::vector<Value*>& sums) const override {
    const std::size_t count = sums.size();
    const std::string opcode = fmt::format(fmt::runtime(instruction.emit[0]), 2 * count,
                                           ptx_type(tiles[0].type), ptx_type(tiles[1].type));
    const int bytes = size_bytes(tiles[0].type);
    // Added to the sums; neither operand negated; which elements of halves lie side by side.
    std::string flags = instruction.sums == DType::kI32 ? "1" : "1, 1, 1";
    if (bytes == 2) flags += fmt::format(", {}, {}", tiles[0].rows ? 0 : 1, tiles[1].rows ? 0 : 1);
    std::vector<Value*> operands;
    std::string text = "wgmma.fence.sync.aligned;\n";
    for (int step = 0; step < instruction.k / instruction.unit_k; ++step) {
      for (const Tile& tile : tiles) {
        const std::uint64_t offset =
            static_cast<std::uint64_t>(step) *
            depth_step(tile.rows, static_cast<std::uint64_t>(instruction.unit_k * bytes));
        operands.push_back(b.CreateAdd(tile.value, b.getInt64(offset)));
      }
      const std::size_t at = 2 * count + operands.size() - 2;
      text += fmt::format("{} {{{}}}, ${}, ${}, {};\n", opcode, numbered("$", 0, count), at, at + 1,
                          flags);
    }
    return run_on_sums(b, sums, text + "wgmma.commit_group.sync.aligned;", operands);
  }

  // What copies stored must be seen by the tensor cores too, which read past the ordinary way.
  std::vector<Value*> wait_for_products(Builder& b, std::int64_t left, bool copies,
                                        const std::vector<Value*>& sums) const override {
    std::string text = fmt::format("wgmma.wait_group.sync.aligned {};", left);
    if (copies) text += "\nfence.proxy.async.shared::cta;";
    if (!sums.empty()) return run_on_sums(b, sums, text, {});
    emit_convergent(b, text);
    return {};
  }

  Value* quotient(Builder& b, Value* x, Value* y) const override {
    return each_lane(b, "div.full.f32 $0, $1, $2;", "=f,f,f", {x, y});
  }
  Value* square_root(Builder& b, Value* x) const override {
    return each_lane(b, "sqrt.approx.f32 $0, $1;", "=f,f", {x});
  }
  bool keeps_nan(const target::Target& target) const override {
    return target.gpu.capability >= 80;
  }
};

}  // namespace

const GpuDialect& nvvm() {
  static const Nvvm dialect;
  return dialect;
}

const GpuDialect* gpu_dialect(const target::Target& target) {
  return target.kind == target::Kind::kCuda ? &nvvm() : nullptr;
}

}  // namespace tessera::codegen
