#include <algorithm>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/emitter.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::codegen {

using llvm::Value;

namespace {

// Pointers of the caller are 64-byte aligned and never null; saying so on the load costs no
// instruction.
Value* load_pointer(llvm::IRBuilderBase& b, Value* address) {
  llvm::LoadInst* p = b.CreateAlignedLoad(b.getPtrTy(), address, llvm::Align(8));
  llvm::LLVMContext& ctx = b.getContext();
  llvm::Metadata* align =
      llvm::ConstantAsMetadata::get(b.getInt64(static_cast<std::uint64_t>(kAlignment)));
  p->setMetadata(llvm::LLVMContext::MD_align, llvm::MDNode::get(ctx, {align}));
  p->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(ctx, {}));
  return p;
}

void set_attributes(llvm::Function* f, const target::Target& target) {
  f->setDoesNotThrow();
  // Without these, CPUs with a preference for 256 bits would get 512-bit vectors split in two.
  const std::string bits = std::to_string(target.vector_bytes * 8);
  f->addFnAttr("prefer-vector-width", bits);
  f->addFnAttr("min-legal-vector-width", bits);
  // LLVM aligns the stack for what it spills only in functions that have a frame pointer anyway.
  // Elsewhere every vector that it spills crosses a line.
  if (target.arch == target::Arch::kX86_64) f->addFnAttr("frame-pointer", "all");
}

}  // namespace

Emitter::Emitter(llvm::Module& module, llvm::IRBuilderBase& builder, const target::Target& target,
                 const ir::Func& func)
    : module_(module),
      b_(builder),
      target_(target),
      name_(func.name),
      params_(func.params),
      body_(func.body),
      policy_(kCpuPolicy),
      ops_(builder, module, target),
      grouped_(false) {}

Result<KernelInfo> Emitter::emit() {
  if (module_.getFunction(name_)) {
    return make_error(ErrorCode::kInvalidArgument, "two kernels are named {}", name_);
  }
  start();
  workspace_ = plan_workspace(body_);
  uses_tiles_ = uses_tiles(body_);
  if (uses_tiles_) ops_.flush_subnormals();
  make_entry();
  if (body_) emit_stmt(body_);
  release_tiles(body_);
  b_.CreateRet(b_.getInt32(0));
  if (failed_) return error_.with_context(name_);
  return KernelInfo{name_, workspace_.shared_bytes, workspace_.worker_bytes};
}

void Emitter::start() {
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b_.setFastMathFlags(flags);
  make_alias_scopes();
}

llvm::BasicBlock* Emitter::new_block(const char* name) {
  return llvm::BasicBlock::Create(b_.getContext(), name, frame_.function);
}

// `top` becomes the block for values fixed by the new scope; emission goes on in a block after it.
void Emitter::open_scope(llvm::BasicBlock* top) {
  llvm::BasicBlock* body = new_block("body");
  b_.SetInsertPoint(top);
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  frame_.scopes.emplace_back().top = top;
}

void Emitter::make_entry() {
  llvm::Type* ptr = b_.getPtrTy();
  auto* signature = llvm::FunctionType::get(b_.getInt32Ty(), {ptr, ptr, ptr}, false);
  auto* f = llvm::Function::Create(signature, llvm::Function::ExternalLinkage, name_, module_);
  set_attributes(f, target_);
  for (llvm::Argument& arg : f->args()) arg.addAttr(llvm::Attribute::NoAlias);
  frame_.function = f;
  frame_.workspace = f->getArg(1);
  frame_.host = f->getArg(2);
  llvm::BasicBlock* entry = new_block("entry");
  b_.SetInsertPoint(entry);
  for (std::size_t i = 0; i < params_.size(); ++i) {
    Value* slot = b_.CreateConstGEP1_64(ptr, f->getArg(0), i);
    Value* p = load_pointer(b_, slot);
    p->setName(params_[i]->name);
    frame_.buffers[params_[i].get()] = {p, 0};
  }
  open_scope(entry);
}

void Emitter::emit_stmt(const ir::Stmt& s) {
  if (!s || failed_) return;
  const bool configured = uses_tiles_ && configure_tiles(s);
  emit_statement(s);
  if (configured) frame_.tiles = false;
}

void Emitter::emit_statement(const ir::Stmt& s) {
  memo_ = {};
  switch (s.kind()) {
    case ir::StmtKind::kFor:
      return emit_for(*s.as<ir::For>());
    case ir::StmtKind::kBlock:
      return emit_block(s.as<ir::Block>()->stmts);
    case ir::StmtKind::kIf:
      return emit_if(*s.as<ir::If>());
    case ir::StmtKind::kAllocate:
      return emit_allocate(*s.as<ir::Allocate>());
    case ir::StmtKind::kStore:
    case ir::StmtKind::kEvaluate:
      return emit_block({s});
    case ir::StmtKind::kBarrier:
      return emit_barrier();
  }
}

void Emitter::emit_block(const std::vector<ir::Stmt>& stmts) {
  const auto is_simple = [](const ir::Stmt& s) {
    return s.kind() == ir::StmtKind::kStore || s.kind() == ir::StmtKind::kEvaluate;
  };
  for (std::size_t i = 0; i < stmts.size();) {
    if (!is_simple(stmts[i])) {
      emit_stmt(stmts[i++]);
      continue;
    }
    std::size_t end = i;
    std::vector<const ir::StmtNode*> region;
    while (end < stmts.size() && is_simple(stmts[end])) region.push_back(stmts[end++].get());
    find_lane_groups(region);
    if (policy_.transposes) find_transposes(region);
    for (; i < end && !failed_; ++i) {
      memo_ = {};
      if (const auto* store = stmts[i].as<ir::Store>()) {
        emit_store(*store);
      } else if (is_tile_statement(stmts[i])) {
        emit_tile(*stmts[i].as<ir::Evaluate>()->value.as<ir::Call>());
      } else {
        emit(stmts[i].as<ir::Evaluate>()->value);
      }
    }
    i = end;
    groups_.clear();
    group_of_.clear();
    transpose_of_.clear();
  }
}

Value* Emitter::entry_alloca(llvm::Type* type) {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  llvm::BasicBlock& entry = frame_.function->getEntryBlock();
  b_.SetInsertPoint(&entry, entry.getFirstInsertionPt());
  llvm::AllocaInst* v = b_.CreateAlloca(type);
  v->setAlignment(llvm::Align(static_cast<std::uint64_t>(kAlignment)));
  return v;
}

void Emitter::emit_allocate(const ir::Allocate& allocate) {
  const ir::Buffer& buffer = allocate.buffer;
  if (buffer->scope == ir::Scope::kShared) {
    fail(ErrorCode::kUnsupported,
         fmt::format("buffer {}: a CPU has no shared memory scope", buffer->name), {});
    return;
  }
  // What a thread of a GPU allocates is its own.
  const Slot slot = launch_ ? Slot{Home::kStack} : workspace_.slots.at(&allocate);
  Value* base = nullptr;
  if (slot.home == Home::kStack) {
    llvm::Type* element = ops_.memory_type({buffer->dtype, 1});
    base = entry_alloca(llvm::ArrayType::get(element, static_cast<std::uint64_t>(buffer.size())));
  } else {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(frame_.scopes[0].top->getTerminator());
    Value* start = slot.home == Home::kShared ? frame_.workspace : frame_.worker;
    base = b_.CreateConstGEP1_64(b_.getInt8Ty(), start, static_cast<std::uint64_t>(slot.offset));
  }
  base->setName(buffer->name);
  frame_.buffers[buffer.get()] = {base, 0};
  emit_stmt(allocate.body);
  // Another Allocate may bind the same buffer to other memory: copies of a loop body share it.
  frame_.buffers.erase(buffer.get());
  for (LoopScope& scope : frame_.scopes) {
    std::erase_if(scope.pointers, [&](const auto& entry) {
      return entry.first[0] == reinterpret_cast<std::int64_t>(buffer.get());
    });
  }
}

void Emitter::emit_if(const ir::If& branch) {
  if (launch_ && (emit_copy_or_zeros(branch) || emit_guarded_copies(branch))) return;
  Value* cond = emit(branch.cond);
  llvm::BasicBlock* then_block = new_block("if.then");
  llvm::BasicBlock* else_block = branch.else_body ? new_block("if.else") : nullptr;
  llvm::BasicBlock* join = new_block("if.end");
  b_.CreateCondBr(cond, then_block, else_block ? else_block : join);
  b_.SetInsertPoint(then_block);
  emit_stmt(branch.then_body);
  b_.CreateBr(join);
  if (else_block) {
    b_.SetInsertPoint(else_block);
    emit_stmt(branch.else_body);
    b_.CreateBr(join);
  }
  b_.SetInsertPoint(join);
}

void Emitter::note_range(const ir::For& loop) {
  const auto extent = range_of(loop.extent, ranges_);
  if (extent) ranges_[loop.var.get()] = {0, std::max<std::int64_t>(extent->high - 1, 0)};
}

void Emitter::emit_for(const ir::For& loop) {
  if (launch_ && loop.loop_kind == ir::LoopKind::kUnrolled) return emit_unrolled(loop);
  if (loop.loop_kind != ir::LoopKind::kSerial && loop.loop_kind != ir::LoopKind::kParallel) {
    fail(ErrorCode::kUnsupported,
         fmt::format("{} loop: lower it before code generation", to_text(loop.loop_kind)), {});
    return;
  }
  if (!launch_ && runs_parallel(loop, frame_.worker != nullptr)) return emit_parallel(loop);
  const auto extent = ir::as_const_int(loop.extent);
  if (extent && *extent <= 0) return;
  note_range(loop);
  if (extent && *extent == 1) {
    frame_.vars[loop.var.get()] = {b_.getInt64(0), 0, b_.getInt32(0)};
    return emit_stmt(loop.body);
  }
  Value* count = emit_narrow(loop.extent);
  emit_loop(loop.var, b_.getInt64(0), count ? count : emit(loop.extent), !extent, loop.body);
  ranges_.erase(loop.var.get());
}

void Emitter::emit_unrolled(const ir::For& loop) {
  const auto extent = ir::as_const_int(loop.extent);
  if (!extent) {
    fail(ErrorCode::kUnsupported, "unrolled loop of unknown extent", {});
    return;
  }
  for (std::int64_t i = 0; i < *extent; ++i) {
    emit_stmt(ir::substitute(loop.body, loop.var, ir::int_imm(i)));
  }
}

// Counts down to zero beside the index: the exit test is then one subtract-and-branch, which is
// worth 14 % in a 30-instruction loop.
void Emitter::emit_loop(const ir::Expr& var, Value* begin, Value* count, bool may_be_empty,
                        const ir::Stmt& body) {
  llvm::BasicBlock* top = new_block("loop");
  llvm::BasicBlock* exit = new_block("loop.end");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::Type* type = count->getType();
  if (may_be_empty) {
    b_.CreateCondBr(b_.CreateICmpSGT(count, llvm::ConstantInt::get(type, 0)), top, exit);
  } else {
    b_.CreateBr(top);
  }
  b_.SetInsertPoint(top);
  llvm::PHINode* index = b_.CreatePHI(type, 2, var.as<ir::Var>()->name);
  llvm::PHINode* left = b_.CreatePHI(type, 2, "left");
  index->addIncoming(b_.CreateIntCast(begin, type, false), before);
  left->addIncoming(count, before);
  const bool narrow = type->isIntegerTy(32);
  Value* wide = narrow ? b_.CreateZExt(index, b_.getInt64Ty()) : index;
  open_scope(top);
  LoopScope& scope = frame_.scopes.back();
  scope.var = var.get();
  scope.begin = begin;
  scope.before = before;
  ir::for_each_stmt(body, [&](const ir::Stmt& s) {
    if (s.as<ir::For>()) scope.has_loops = true;
  });
  frame_.vars[var.get()] = {wide, static_cast<int>(frame_.scopes.size()) - 1,
                            narrow ? index : nullptr};
  emit_stmt(body);
  frame_.vars.erase(var.get());
  close_loop(index, left, top, exit);
  frame_.scopes.pop_back();
  b_.SetInsertPoint(exit);
}

void Emitter::close_loop(llvm::PHINode* index, llvm::PHINode* left, llvm::BasicBlock* top,
                         llvm::BasicBlock* exit) {
  llvm::BasicBlock* last = b_.GetInsertBlock();
  for (const RunningPointer& p : frame_.scopes.back().running) {
    p.value->addIncoming(
        b_.CreateGEP(p.element, p.value, b_.getInt64(static_cast<std::uint64_t>(p.step))), last);
  }
  llvm::Constant* one = llvm::ConstantInt::get(left->getType(), 1);
  if (index->use_empty()) {
    index->eraseFromParent();
  } else {
    index->addIncoming(b_.CreateAdd(index, one, "", true, true), last);
  }
  Value* remaining = b_.CreateSub(left, one, "", true, true);
  left->addIncoming(remaining, last);
  llvm::Constant* zero = llvm::Constant::getNullValue(left->getType());
  b_.CreateCondBr(b_.CreateICmpNE(remaining, zero), top, exit);
}

namespace {

// Variables and buffers that a parallel body takes from outside.
struct Captures {
  std::vector<const ir::ExprNode*> vars;
  std::vector<const ir::BufferNode*> buffers;
};

template <class T>
void add_once(std::vector<T>* list, T item) {
  if (std::find(list->begin(), list->end(), item) == list->end()) list->push_back(item);
}

Captures used_by(const ir::Stmt& body) {
  Captures used;
  ir::for_each_expr(body, [&](const ir::Expr& e) {
    if (e.as<ir::Var>()) add_once(&used.vars, e.get());
    if (const auto* load = e.as<ir::Load>()) add_once(&used.buffers, load->buffer.get());
  });
  ir::for_each_stmt(body, [&](const ir::Stmt& s) {
    if (const auto* store = s.as<ir::Store>()) add_once(&used.buffers, store->buffer.get());
  });
  return used;
}

}  // namespace

// The closure is an array of 8-byte slots on the caller's stack: workspace, buffers, variables.
void Emitter::emit_parallel(const ir::For& loop) {
  Captures used = used_by(loop.body);
  std::erase_if(used.vars, [&](const ir::ExprNode* v) { return !frame_.vars.contains(v); });
  std::erase_if(used.buffers, [&](const ir::BufferNode* v) { return !frame_.buffers.contains(v); });
  std::vector<Value*> slots = {frame_.workspace};
  for (const ir::BufferNode* buffer : used.buffers)
    slots.push_back(frame_.buffers.at(buffer).value);
  for (const ir::ExprNode* var : used.vars) slots.push_back(frame_.vars.at(var).value);

  Value* extent = emit(loop.extent);
  Value* closure = entry_alloca(llvm::ArrayType::get(b_.getInt64Ty(), slots.size()));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    b_.CreateStore(slots[i], b_.CreateConstGEP1_64(b_.getInt64Ty(), closure, i));
  }
  note_range(loop);
  llvm::Function* body = emit_body(loop, used.vars, used.buffers);
  ranges_.erase(loop.var.get());
  llvm::Type* ptr = b_.getPtrTy();
  auto* signature =
      llvm::FunctionType::get(b_.getVoidTy(), {ptr, ptr, ptr, b_.getInt64Ty()}, false);
  // parallel_for is the first member of tsr_host.
  Value* parallel_for = b_.CreateAlignedLoad(ptr, frame_.host, llvm::Align(8));
  b_.CreateCall(signature, parallel_for, {frame_.host, body, closure, extent});
}

llvm::Function* Emitter::emit_body(const ir::For& loop,
                                   const std::vector<const ir::ExprNode*>& vars,
                                   const std::vector<const ir::BufferNode*>& buffers) {
  llvm::Type* ptr = b_.getPtrTy();
  llvm::Type* i64 = b_.getInt64Ty();
  auto* signature =
      llvm::FunctionType::get(b_.getVoidTy(), {ptr, i64, i64, b_.getInt32Ty()}, false);
  auto* f = llvm::Function::Create(signature, llvm::Function::InternalLinkage, name_ + ".parallel",
                                   module_);
  set_attributes(f, target_);
  f->getArg(0)->addAttr(llvm::Attribute::NoAlias);
  f->getArg(0)->addAttr(llvm::Attribute::ReadOnly);

  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  Frame outer = std::move(frame_);
  frame_ = Frame{};
  frame_.function = f;
  llvm::BasicBlock* entry = new_block("entry");
  b_.SetInsertPoint(entry);
  std::size_t slot = 0;
  const auto next_slot = [&] { return b_.CreateConstGEP1_64(i64, f->getArg(0), slot++); };
  frame_.workspace = load_pointer(b_, next_slot());
  for (const ir::BufferNode* buffer : buffers)
    frame_.buffers[buffer] = {load_pointer(b_, next_slot()), 0};
  for (const ir::ExprNode* var : vars) frame_.vars[var] = {b_.CreateLoad(i64, next_slot()), 0};
  Value* worker = b_.CreateZExt(f->getArg(3), i64);
  Value* part =
      b_.CreateMul(worker, b_.getInt64(static_cast<std::uint64_t>(workspace_.worker_bytes)));
  Value* offset =
      b_.CreateAdd(part, b_.getInt64(static_cast<std::uint64_t>(workspace_.shared_bytes)));
  frame_.worker = b_.CreateGEP(b_.getInt8Ty(), frame_.workspace, offset);
  open_scope(entry);
  if (uses_tiles_) configure_tiles(loop.body);
  emit_loop(loop.var, f->getArg(1), b_.CreateSub(f->getArg(2), f->getArg(1)), true, loop.body);
  release_tiles(loop.body);
  b_.CreateRetVoid();
  frame_ = std::move(outer);
  memo_ = {};
  return f;
}

}  // namespace tessera::codegen
