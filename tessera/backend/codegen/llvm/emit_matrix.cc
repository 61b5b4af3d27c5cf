// Matrix products of a warp, which holds the operands, and of a warp group, which names tiles of
// shared memory.
#include <algorithm>
#include <string>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/emitter.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::codegen {

using llvm::Value;

namespace {

constexpr int kRowBytes = 16;

}  // namespace

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
  llvm::CallInst* loaded = dialect_->load_matrix(b_, pointer(load->buffer, place->base),
                                                 call.fn == ir::Intrinsic::kMatrixColumns);
  annotate(loaded, load->buffer);
  Value* words = llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getInt32Ty(), kRowBytes / 4));
  for (unsigned i = 0; i < kRowBytes / 4; ++i)
    words = b_.CreateInsertElement(words, b_.CreateExtractValue(loaded, {i}), i);
  return b_.CreateBitCast(words, ops_.type(call.type));
}

std::vector<Value*> Emitter::matrix_words(const ir::Expr& operand) {
  const auto count = static_cast<unsigned>(operand.lanes() * size_bytes(operand.dtype()) / 4);
  Value* all = b_.CreateBitCast(emit(operand), llvm::FixedVectorType::get(b_.getInt32Ty(), count));
  std::vector<Value*> out;
  for (unsigned i = 0; i < count; ++i)
    out.push_back(dialect_->rounded(b_, operand.dtype(), b_.CreateExtractElement(all, i)));
  return out;
}

Value* Emitter::emit_mma(const ir::Call& call) {
  const DType a = call.args[1].dtype(), b = call.args[2].dtype();
  const auto* instruction = target::find_matrix(target_, target::Operands::kFragments, a, b);
  if (!instruction) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} has no tensor cores for products of 16 x 8 x {} in {}",
                            target_.name, 32 / size_bytes(a), to_text(a)),
                call.type);
  }
  GpuDialect::Fragments fragments{.a_type = a, .b_type = b, .a = {}, .b = {}, .sums = {}};
  fragments.a = matrix_words(call.args[1]);
  fragments.b = matrix_words(call.args[2]);
  Value* sums = emit(call.args[0]);
  for (int i = 0; i < call.type.lanes; ++i)
    fragments.sums.push_back(b_.CreateExtractElement(sums, static_cast<std::uint64_t>(i)));
  const std::vector<Value*> product = dialect_->multiply(b_, *instruction, fragments);
  Value* out = llvm::PoisonValue::get(ops_.type(call.type));
  for (std::size_t i = 0; i < product.size(); ++i) out = b_.CreateInsertElement(out, product[i], i);
  return out;
}

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

bool Emitter::emit_group_product(const ir::Store& store) {
  if (!ir::is_group_product(store.value)) return false;
  const auto* call = store.value.as<ir::Call>();
  const auto* old = call->args[0].as<ir::Load>();
  const auto place = place_of(store.buffer, store.indices);
  const DType type = call->args[1].dtype();
  const auto* instruction =
      target::find_matrix(target_, target::Operands::kTiles, type, call->args[2].dtype());
  if (!launch_ || !instruction) {
    fail(ErrorCode::kUnsupported,
         fmt::format("{} has no tensor cores for products of {} x {} x {} in {}", target_.name,
                     ir::kGroupRows, 2 * store.value.lanes(), 32 / size_bytes(type), to_text(type)),
         {});
    return true;
  }
  if (!old || old->buffer != store.buffer || !ir::equal(old->indices[0], store.indices[0]) ||
      store.buffer->scope != ir::Scope::kStack || !place || !place->base.terms.empty()) {
    fail(ErrorCode::kUnsupported, "a product of a warp group that is not added to its own sums",
         {});
    return true;
  }
  if (target::signs_of(type, call->args[2].dtype()) == target::Signs::kMixed)
    ptx_ = std::max(ptx_, instruction->mixed_since);
  std::array<GpuDialect::Tile, 2> tiles{};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto* tile = call->args[i + 1].as<ir::Call>();
    const auto* load = tile->args[0].as<ir::Load>();
    const auto first = place_of(load->buffer, load->indices);
    tiles[i].type = load->type.dtype;
    tiles[i].rows = tile->fn == ir::Intrinsic::kMatrixRows;
    tiles[i].value = dialect_->tile(b_, pointer(load->buffer, first->base), tiles[i].rows);
  }
  const std::vector<Value*> sums =
      load_sums(store.buffer, place->base, static_cast<std::int64_t>(store.value.lanes()));
  store_sums(store.buffer, place->base, dialect_->multiply_tiles(b_, *instruction, tiles, sums));
  group_sums_.insert(store.buffer);
  return true;
}

void Emitter::wait_for_products(std::int64_t left, bool copies) {
  std::vector<ir::Buffer> alive;
  for (const ir::Buffer& b : group_sums_) {
    if (frame_.buffers.contains(b.get())) alive.push_back(b);
  }
  if (left > 0 || alive.empty()) {
    dialect_->wait_for_products(b_, left, copies, {});
    return;
  }
  for (const ir::Buffer& b : alive)
    store_sums(b, {}, dialect_->wait_for_products(b_, left, copies, load_sums(b, {}, b.size())));
}

}  // namespace tessera::codegen
