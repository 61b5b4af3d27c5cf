// Matrix products of a warp group: tensor cores that read tiles of shared memory.
#include <algorithm>
#include <string>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/emitter.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/machine/target/matrix_instructions.h"

namespace tessera::codegen {

using llvm::Value;

namespace {

constexpr std::int64_t kDepth = 16;  // of one instruction

// "Matrix descriptor" of wgmma in the PTX ISA: where a tile lies, in units of 16 bytes, and how.
constexpr std::uint64_t kUnit = 16;
constexpr std::uint64_t kSwizzle128 = 1ULL << 62;
constexpr unsigned kLeading = 16, kStride = 32;  // bits of the offsets between parts

// Bytes between tiles that lie side by side, and between groups of eight rows.
std::uint64_t layout_of_tile(bool rows) {
  constexpr std::uint64_t kEight = ir::kTileAlign, kTile = kEight * ir::kTileRow / 8;
  const std::uint64_t leading = rows ? kUnit : kTile;  // rows have no second tile
  return kSwizzle128 | (leading / kUnit) << kLeading | (kEight / kUnit) << kStride;
}

// From the operands of one instruction to those of the next, in units.
std::uint64_t depth_step(bool rows) {
  return (rows ? kDepth * 2 : kDepth * ir::kTileRow * 2) / kUnit;
}

std::string numbered(const char* before, std::size_t first, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i)
    out += fmt::format("{}{}{}", i > 0 ? "," : "", before, first + i);
  return out;
}

std::string repeated(const char* what, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += fmt::format("{}{}", i > 0 ? "," : "", what);
  return out;
}

}  // namespace

bool has_group_products(const ir::Stmt& body) {
  bool found = false;
  if (body) {
    ir::for_each_expr(body, [&](const ir::Expr& e) { found = found || ir::is_group_product(e); });
  }
  return found;
}

// One by one, so that each is a register from the first to the last product.
std::vector<Value*> Emitter::load_sums(const ir::Buffer& buffer, const Linear& first,
                                       std::int64_t count) {
  std::vector<Value*> out;
  for (std::int64_t i = 0; i < count; ++i) {
    Linear at = first;
    at.constant += i;
    out.push_back(load_dense(buffer, at, 1));
  }
  return out;
}

void Emitter::store_sums(const ir::Buffer& buffer, const Linear& first,
                         const std::vector<Value*>& sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    Linear at = first;
    at.constant += static_cast<std::int64_t>(i);
    store_at(buffer, pointer(buffer, at), sums[i], 1, size_bytes(buffer->dtype));
  }
}

// Runs the text with the sums as its first operands, which it may change, and `others` after them
// twice over.
std::vector<Value*> Emitter::run_on_sums(const std::vector<Value*>& sums, const std::string& text,
                                         const std::vector<Value*>& others) {
  std::vector<Value*> args = sums;
  args.insert(args.end(), others.begin(), others.end());
  std::vector<llvm::Type*> types;
  types.reserve(args.size());
  for (const Value* arg : args) types.push_back(arg->getType());
  const std::size_t n = sums.size();
  std::string constraints = repeated("=f", n) + "," + numbered("", 0, n);
  if (!others.empty()) constraints += "," + repeated("l", others.size());
  auto* result =
      llvm::StructType::get(b_.getContext(), std::vector<llvm::Type*>(n, b_.getFloatTy()));
  llvm::CallInst* call =
      b_.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text,
                                         constraints + ",~{memory}", /*hasSideEffects=*/true),
                    args);
  call->addFnAttr(llvm::Attribute::Convergent);
  std::vector<Value*> out;
  for (unsigned i = 0; i < n; ++i) out.push_back(b_.CreateExtractValue(call, {i}));
  return out;
}

Value* Emitter::emit_tile(const ir::Call& tile) {
  const auto* load = tile.args[0].as<ir::Load>();
  const auto place = place_of(load->buffer, load->indices);
  Value* address = b_.CreatePtrToInt(pointer(load->buffer, place->base), b_.getInt32Ty());
  Value* units = b_.CreateLShr(b_.CreateAnd(address, 0x3ffff), b_.getInt32(4));
  return b_.CreateOr(b_.CreateZExt(units, b_.getInt64Ty()),
                     b_.getInt64(layout_of_tile(tile.fn == ir::Intrinsic::kMatrixRows)));
}

bool Emitter::emit_group_product(const ir::Store& store) {
  if (!ir::is_group_product(store.value)) return false;
  const auto* call = store.value.as<ir::Call>();
  const auto* old = call->args[0].as<ir::Load>();
  const auto place = place_of(store.buffer, store.indices);
  const DType type = call->args[1].dtype();
  if (!launch_ || !target::find_matrix(target_, target::Operands::kTiles, type, type)) {
    fail(ErrorCode::kUnsupported,
         fmt::format("{} has no tensor cores for products of {} x {} x {} in {}", target_.name,
                     ir::kGroupRows, 2 * store.value.lanes(), kDepth, to_text(type)),
         {});
    return true;
  }
  if (!old || old->buffer != store.buffer || !ir::equal(old->indices[0], store.indices[0]) ||
      store.buffer->scope != ir::Scope::kStack || !place || !place->base.terms.empty()) {
    fail(ErrorCode::kUnsupported, "a product of a warp group that is not added to its own sums",
         {});
    return true;
  }
  const auto count = static_cast<std::size_t>(store.value.lanes());
  const auto is_rows = [&](std::size_t arg) {
    return call->args[arg].as<ir::Call>()->fn == ir::Intrinsic::kMatrixRows;
  };
  std::vector<Value*> tiles;
  std::string text = "wgmma.fence.sync.aligned;\n";
  for (std::int64_t step = 0; step < ir::kGroupDepth / kDepth; ++step) {
    for (const std::size_t arg : {std::size_t{1}, std::size_t{2}}) {
      Value* first = step == 0 ? emit_tile(*call->args[arg].as<ir::Call>()) : tiles[arg - 1];
      tiles.push_back(b_.CreateAdd(
          first, b_.getInt64(static_cast<std::uint64_t>(step) * depth_step(is_rows(arg)))));
    }
    const std::size_t at = 2 * count + tiles.size() - 2;
    text += fmt::format(
        "wgmma.mma_async.sync.aligned.m64n{}k{}.f32.{}.{} {{{}}}, ${}, ${}, 1, 1, 1, {}, {};\n",
        2 * count, kDepth, to_text(type), to_text(type), numbered("$", 0, count), at, at + 1,
        is_rows(1) ? 0 : 1, is_rows(2) ? 0 : 1);
  }
  text += "wgmma.commit_group.sync.aligned;";
  const std::vector<Value*> sums =
      load_sums(store.buffer, place->base, static_cast<std::int64_t>(count));
  store_sums(store.buffer, place->base, run_on_sums(sums, text, tiles));
  group_sums_.insert(store.buffer);
  return true;
}

// What copies stored must be seen by the tensor cores too, which read past the ordinary way.
void Emitter::wait_for_products(std::int64_t left, bool copies) {
  std::string text = fmt::format("wgmma.wait_group.sync.aligned {};", left);
  if (copies) text += "\nfence.proxy.async.shared::cta;";
  std::vector<ir::Buffer> alive;
  for (const ir::Buffer& b : group_sums_) {
    if (frame_.buffers.contains(b.get())) alive.push_back(b);
  }
  if (left > 0 || alive.empty()) {
    auto* signature = llvm::FunctionType::get(b_.getVoidTy(), false);
    b_.CreateCall(llvm::InlineAsm::get(signature, text, "~{memory}", /*hasSideEffects=*/true))
        ->addFnAttr(llvm::Attribute::Convergent);
    return;
  }
  for (const ir::Buffer& b : alive)
    store_sums(b, {}, run_on_sums(load_sums(b, {}, b.size()), text, {}));
}

}  // namespace tessera::codegen
