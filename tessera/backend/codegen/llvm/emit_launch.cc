// How a kernel of a GPU begins, and what its threads do together.
#include <algorithm>
#include <string>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/early_copies.h"
#include "tessera/backend/codegen/llvm/emitter.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/machine/target/waiting.h"

namespace tessera::codegen {

using llvm::Value;

namespace {

constexpr std::uint64_t kParamAlign = 64;  // what devices promise

bool multiplies_matrices(const ir::Stmt& body) {
  bool found = false;
  ir::for_each_expr(body, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::Call>();
    found = found || (call && call->fn == ir::Intrinsic::kMma);
  });
  return found;
}

// Threads of a multiprocessor that may have 128 registers each.
constexpr std::int64_t kRoomyThreads = 512;

// How many blocks a multiprocessor should hold at once, so that threads may have as many registers
// as that leaves; 0: as the assembler thinks best. Without room for operands ahead of their use,
// every product of matrices waits for shared memory, and loads follow each other where the blocks
// are too few to hide them.
std::int64_t blocks_at_once(const ir::Launch& launch, const target::Target& target) {
  if (launch.body && multiplies_matrices(launch.body)) return 1;
  const auto product = [](const std::array<std::int64_t, 3>& n) { return n[0] * n[1] * n[2]; };
  const std::int64_t blocks = (product(launch.grid) + target.cores - 1) / target.cores;
  return launch.shared.empty() && blocks * product(launch.block) <= kRoomyThreads ? blocks : 0;
}

}  // namespace

Emitter::Emitter(llvm::Module& module, llvm::IRBuilderBase& builder, const target::Target& target,
                 const ir::Launch& launch, std::string name, std::vector<ir::Buffer> constants)
    : module_(module),
      b_(builder),
      target_(target),
      name_(std::move(name)),
      params_(launch.params),
      body_(launch.body),
      launch_(&launch),
      constants_(std::move(constants)),
      policy_(kGpuPolicy),
      dialect_(gpu_dialect(target)),
      ops_(builder, module, target),
      grouped_(has_group_products(launch.body)) {}

Result<runtime::LaunchInfo> Emitter::emit_launch() {
  runtime::LaunchInfo info{name_, launch_->grid, launch_->block};
  start();
  make_kernel_entry();
  const ir::SharedPlaces places = ir::place_shared(*launch_);
  if (places.bytes > 0) {
    Value* start = make_shared(places, &info.shared_bytes);
    for (std::size_t i = 0; i < places.offsets.size(); ++i) {
      const auto offset = static_cast<std::uint64_t>(places.offsets[i]);
      frame_.buffers[launch_->shared[i].get()] = {
          b_.CreateConstGEP1_64(b_.getInt8Ty(), start, offset), 0};
    }
  }
  if (target::kernels_wait(target_)) {
    emit_waiting_body();
  } else {
    emit_stmt(body_);
  }
  b_.CreateRetVoid();
  if (failed_) return error_.with_context(launch_->name);
  return info;
}

void Emitter::make_kernel_entry() {
  llvm::LLVMContext& ctx = b_.getContext();
  llvm::Type* pointer = llvm::PointerType::get(ctx, dialect_->global_space());
  std::vector<llvm::Type*> types(params_.size(), pointer);
  const bool fetches = dialect_->fetches(target_);
  if (fetches) types.insert(types.end(), 3, b_.getInt64Ty());
  auto* signature = llvm::FunctionType::get(b_.getVoidTy(), types, false);
  auto* f = llvm::Function::Create(signature, llvm::Function::ExternalLinkage, name_, module_);
  f->setDoesNotThrow();
  dialect_->mark_kernel(f, launch_->block, blocks_at_once(*launch_, target_));
  const std::size_t inputs = params_.size() - static_cast<std::size_t>(launch_->num_outputs);
  for (std::size_t i = 0; i < params_.size(); ++i) {
    llvm::Argument* arg = f->getArg(static_cast<unsigned>(i));
    arg->setName(params_[i]->name);
    arg->addAttr(llvm::Attribute::getWithAlignment(ctx, llvm::Align(kParamAlign)));
    frame_.buffers[params_[i].get()] = {arg, 0};
    // Loads of what nobody else writes may move to anywhere: above a wait for who does, too.
    if (target::kernels_wait(target_) && !is_constant(params_[i])) continue;
    arg->addAttr(llvm::Attribute::NoAlias);
    // Then loads go through the read-only cache.
    if (i < inputs) arg->addAttr(llvm::Attribute::ReadOnly);
  }
  frame_.function = f;
  llvm::BasicBlock* entry = new_block("entry");
  b_.SetInsertPoint(entry);
  for (std::size_t d = 0; d < 3; ++d) {
    bind_id(launch_->block_vars[d], launch_->grid[d], [&] { return dialect_->block_id(b_, d); });
    bind_id(launch_->thread_vars[d], launch_->block[d], [&] { return dialect_->thread_id(b_, d); });
  }
  const auto end = static_cast<unsigned>(types.size());
  if (fetches)
    dialect_->fetch(b_, *launch_, f->getArg(end - 3), f->getArg(end - 2), f->getArg(end - 1));
  open_scope(entry);
}

bool Emitter::is_constant(const ir::Buffer& param) const {
  return std::find(constants_.begin(), constants_.end(), param) != constants_.end();
}

// Waits until the kernel before this one has ended and everything sees what it wrote, and lets the
// next one begin when all blocks are at their end. All threads of all blocks wait, so that the next
// one comes after those before this one as well.
void Emitter::emit_waiting_body() {
  const EarlyCopies split =
      split_early_copies(body_, [&](const ir::Buffer& b) { return is_constant(b); });
  emit_block(split.early);
  const llvm::Instruction* wait = dialect_->wait_for_kernel(b_);
  emit_stmt(split.rest);
  dialect_->let_next_start(b_);
  keep_inputs(wait);
}

// Nothing behind the wait changes what the kernel only reads: barriers and copies do not keep loads
// of it from being one, or from moving.
void Emitter::keep_inputs(const llvm::Instruction* wait) {
  const std::size_t inputs = params_.size() - static_cast<std::size_t>(launch_->num_outputs);
  std::vector<llvm::Metadata*> scopes;
  for (std::size_t i = 0; i < inputs; ++i)
    scopes.push_back(alias_.at(params_[i].get()).first->getOperand(0));
  llvm::MDNode* kept = llvm::MDNode::get(b_.getContext(), scopes);
  constexpr unsigned kNoAlias = llvm::LLVMContext::MD_noalias;
  for (llvm::BasicBlock& block : *frame_.function) {
    for (llvm::Instruction& i : block) {
      if (llvm::isa<llvm::CallInst>(i) && &i != wait && !i.getMetadata(kNoAlias))
        i.setMetadata(kNoAlias, kept);
    }
  }
}

void Emitter::bind_id(const ir::Expr& var, std::int64_t extent,
                      const std::function<llvm::CallInst*()>& read) {
  if (!var) return;
  ranges_[var.get()] = {0, extent - 1};
  if (extent == 1) {
    frame_.vars[var.get()] = {b_.getInt64(0), 0, b_.getInt32(0)};
    return;
  }
  llvm::CallInst* id = read();
  const llvm::APInt low(32, 0), high(32, static_cast<std::uint64_t>(extent));
  id->setMetadata(llvm::LLVMContext::MD_range,
                  llvm::MDBuilder(b_.getContext()).createRange(low, high));
  id->setName(var.as<ir::Var>()->name);
  frame_.vars[var.get()] = {b_.CreateZExt(id, b_.getInt64Ty()), 0, id};
}

// Within the limit a place that the assembler knows; else one whose size the launch tells.
Value* Emitter::make_shared(const ir::SharedPlaces& places, std::int64_t* dynamic_bytes) {
  const bool is_static = places.bytes <= dialect_->most_static_shared();
  const auto align = llvm::Align(static_cast<std::uint64_t>(places.align));
  *dynamic_bytes = is_static ? 0 : places.bytes;
  constexpr const char* kDynamic = "tsr_shared";
  if (llvm::GlobalVariable* known = module_.getGlobalVariable(kDynamic); known && !is_static) {
    known->setAlignment(std::max(align, known->getAlign().valueOrOne()));
    return known;
  }
  auto* type = llvm::ArrayType::get(b_.getInt8Ty(),
                                    is_static ? static_cast<std::uint64_t>(places.bytes) : 0);
  auto* memory = new llvm::GlobalVariable(
      module_, type, false,
      is_static ? llvm::GlobalValue::InternalLinkage : llvm::GlobalValue::ExternalLinkage,
      is_static ? llvm::UndefValue::get(type) : nullptr, is_static ? name_ + "_shared" : kDynamic,
      nullptr, llvm::GlobalValue::NotThreadLocal, dialect_->shared_space());
  memory->setAlignment(align);
  return memory;
}

void Emitter::emit_barrier() {
  if (!launch_) {
    fail(ErrorCode::kUnsupported, "barrier in code for one thread", {});
    return;
  }
  dialect_->barrier(b_);
}

Value* Emitter::emit_thread_call(const ir::Call& call) {
  switch (call.fn) {
    case ir::Intrinsic::kShuffleXor:
    case ir::Intrinsic::kAsyncCopy:
    case ir::Intrinsic::kAsyncCommit:
    case ir::Intrinsic::kAsyncWait:
    case ir::Intrinsic::kProductsWait:
    case ir::Intrinsic::kMatrixRows:
    case ir::Intrinsic::kMatrixColumns:
    case ir::Intrinsic::kMma:
      break;
    default:
      return nullptr;
  }
  if (!launch_) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} in code for one thread", ir::to_text(call.fn)), call.type);
  }
  if (call.fn == ir::Intrinsic::kShuffleXor) return emit_shuffle_xor(call);
  if (call.fn == ir::Intrinsic::kMma) return emit_mma(call);
  if (call.fn == ir::Intrinsic::kMatrixRows || call.fn == ir::Intrinsic::kMatrixColumns)
    return emit_matrix(call);
  if (call.fn == ir::Intrinsic::kAsyncCopy) {
    emit_async_copy(*call.args[0].as<ir::Load>(), *call.args[1].as<ir::Load>());
  } else if (call.fn == ir::Intrinsic::kAsyncCommit) {
    dialect_->async_commit(b_, target_);
  } else if (call.fn == ir::Intrinsic::kProductsWait) {
    if (grouped_) wait_for_products(0, /*copies=*/false);
  } else {
    const std::int64_t left = ir::as_const_int(call.args[0]).value_or(0);
    dialect_->async_wait(b_, target_, left);
    if (grouped_) wait_for_products(std::min<std::int64_t>(left, 1), /*copies=*/true);
    if (call.args.size() > 1)
      dialect_->group_barrier(b_, *ir::as_const_int(call.args[1]), launch_->warp);
  }
  return ops_.int_constant(call.type, 0);
}

// In pieces of 32 bits.
Value* Emitter::emit_shuffle_xor(const ir::Call& call) {
  Value* value = ops_.to_memory(call.type, emit(call.args[0]));
  llvm::Type* type = value->getType();
  const auto bits = static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue());
  Value* whole = b_.CreateBitCast(value, b_.getIntNTy(bits));
  const auto mask = static_cast<std::uint32_t>(ir::as_const_int(call.args[1]).value_or(0));
  Value* result = llvm::ConstantInt::get(whole->getType(), 0);
  for (unsigned done = 0; done < bits; done += 32) {
    Value* part = b_.CreateZExtOrTrunc(b_.CreateLShr(whole, done), b_.getInt32Ty());
    Value* other = dialect_->shuffle_xor(b_, part, mask);
    Value* moved = b_.CreateShl(b_.CreateZExtOrTrunc(other, whole->getType()), done);
    result = b_.CreateOr(result, moved);
  }
  return ops_.from_memory(call.type, b_.CreateBitCast(result, type));
}

// A copy where a condition holds, zeros elsewhere: one instruction for both.
bool Emitter::is_copy_or_zeros(const ir::If& branch) const {
  const auto* copy = branch.then_body.as<ir::Evaluate>();
  const auto* call = copy ? copy->value.as<ir::Call>() : nullptr;
  const auto* zeros = branch.else_body ? branch.else_body.as<ir::Store>() : nullptr;
  if (!call || call->fn != ir::Intrinsic::kAsyncCopy || !zeros) return false;
  const auto* to = call->args[0].as<ir::Load>();
  const auto* from = call->args[1].as<ir::Load>();
  const auto* copies = zeros->value.as<ir::Broadcast>();
  const auto* number = (copies ? copies->value : zeros->value).as<ir::FloatImm>();
  return number && number->value == 0 && zeros->buffer == to->buffer &&
         ir::equal(zeros->indices[0], to->indices[0]) && copies_asynchronously(*to, *from);
}

bool Emitter::emit_copy_or_zeros(const ir::If& branch) {
  if (!is_copy_or_zeros(branch)) return false;
  const auto* call = branch.then_body.as<ir::Evaluate>()->value.as<ir::Call>();
  emit_async_copy(*call->args[0].as<ir::Load>(), *call->args[1].as<ir::Load>(), emit(branch.cond));
  return true;
}

bool Emitter::only_copies(const ir::Stmt& s) const {
  if (const auto* block = s.as<ir::Block>()) {
    return std::all_of(block->stmts.begin(), block->stmts.end(),
                       [&](const ir::Stmt& each) { return only_copies(each); });
  }
  if (const auto* branch = s.as<ir::If>())
    return branch->else_body ? is_copy_or_zeros(*branch) : only_copies(branch->then_body);
  const auto* copy = s.as<ir::Evaluate>();
  const auto* call = copy ? copy->value.as<ir::Call>() : nullptr;
  return call && call->fn == ir::Intrinsic::kAsyncCopy &&
         copies_asynchronously(*call->args[0].as<ir::Load>(), *call->args[1].as<ir::Load>());
}

bool Emitter::copies_single_elements() const {
  bool out = false;
  ir::for_each_stmt(body_, [&](const ir::Stmt& s) {
    const auto* copy = s.as<ir::Evaluate>();
    const auto* call = copy ? copy->value.as<ir::Call>() : nullptr;
    if (call && call->fn == ir::Intrinsic::kAsyncCopy)
      out |= call->args[1].as<ir::Load>()->type.lanes == 1;
  });
  return out;
}

// Copies of steps to come carry their condition where they are many, of single elements: a branch
// would keep the assembler from moving reads of operands across it. With few copies of whole
// vectors branches are as fast, or faster where a thread has 128 accumulators.
bool Emitter::emit_guarded_copies(const ir::If& branch) {
  if (branch.else_body || !only_copies(branch.then_body) || !copies_single_elements()) return false;
  llvm::Value* cond = emit(branch.cond);
  llvm::Value* outer = copy_guard_;
  copy_guard_ = outer ? b_.CreateAnd(outer, cond) : cond;
  emit_stmt(branch.then_body);
  copy_guard_ = outer;
  return true;
}

bool Emitter::copies_asynchronously(const ir::Load& to, const ir::Load& from) const {
  const auto place_to = place_of(to.buffer, to.indices);
  const auto place_from = place_of(from.buffer, from.indices);
  const int lanes = from.type.lanes;
  if (!place_to || !place_from) return false;
  if (lanes > 1 && (place_to->stride != 1 || place_from->stride != 1)) return false;
  const std::int64_t bytes = lanes * size_bytes(from.type.dtype);
  const std::int64_t align = std::min(align_bytes(to.buffer, place_to->base, lanes),
                                      align_bytes(from.buffer, place_from->base, lanes));
  return dialect_->copies_asynchronously(target_, bytes) && align >= bytes;
}

// What lies as the copy needs it; anything else is loaded and stored. With `wanted`, zeros where it
// is false.
void Emitter::emit_async_copy(const ir::Load& to, const ir::Load& from, llvm::Value* wanted) {
  const auto place_to = place_of(to.buffer, to.indices);
  const auto place_from = place_of(from.buffer, from.indices);
  const int lanes = from.type.lanes;
  const bool dense =
      place_to && place_from && (lanes == 1 || (place_to->stride == 1 && place_from->stride == 1));
  if (!dense) {
    keep_alive_.push_back(ir::Load::make(from.buffer, from.indices));
    const ir::Stmt copy = ir::Store::make(to.buffer, to.indices, keep_alive_.back());
    emit_store(*copy.as<ir::Store>());
    return;
  }
  const std::int64_t bytes = lanes * size_bytes(from.type.dtype);
  if (!copies_asynchronously(to, from)) {
    Value* value = load_dense(from.buffer, place_from->base, lanes);
    store_at(to.buffer, pointer(to.buffer, place_to->base), value, lanes,
             align_bytes(to.buffer, place_to->base, lanes));
    return;
  }
  Value* target = pointer(to.buffer, place_to->base);
  Value* source = pointer(from.buffer, place_from->base);
  dialect_->async_copy(b_, {target, source, bytes, wanted, copy_guard_});
}

}  // namespace tessera::codegen
