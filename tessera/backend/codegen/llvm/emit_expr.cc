#include <algorithm>
#include <cmath>
#include <optional>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/lane.h"
#include "tessera/backend/codegen/llvm/emitter.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::codegen {

using ir::Expr;
using llvm::Value;

Value* Emitter::fail(ErrorCode code, std::string message, ir::Type type) {
  if (!failed_) error_ = {code, std::move(message)};
  failed_ = true;
  return llvm::PoisonValue::get(ops_.type(type));
}

Value* Emitter::emit(const Expr& e) {
  if (e.as<ir::IntImm>() || e.as<ir::FloatImm>() || e.as<ir::Var>()) return emit_node(e);
  if (const auto found = memo_.values.find(e.get()); found != memo_.values.end())
    return found->second;
  Value* narrow = emit_narrow(e);
  Value* v = narrow ? widened(narrow, e) : emit_node(e);
  memo_.values[e.get()] = v;
  return v;
}

Value* Emitter::emit_node(const Expr& e) {
  switch (e.kind()) {
    case ir::ExprKind::kIntImm:
      return ops_.int_constant(e.type(), e.as<ir::IntImm>()->value);
    case ir::ExprKind::kFloatImm:
      return ops_.float_constant(e.type(), e.as<ir::FloatImm>()->value);
    case ir::ExprKind::kVar: {
      const auto found = frame_.vars.find(e.get());
      if (found != frame_.vars.end()) return found->second.value;
      return fail(ErrorCode::kBuildFailed,
                  fmt::format("variable {} is not bound", e.as<ir::Var>()->name), e.type());
    }
    case ir::ExprKind::kBinary: {
      const auto* binary = e.as<ir::Binary>();
      const bool small = is_non_negative(binary->a) && is_non_negative(binary->b);
      if (ir::is_comparison(binary->op)) {
        Value* x = emit_narrow(binary->a);
        Value* y = x ? emit_narrow(binary->b) : nullptr;
        if (y) return ops_.binary(binary->op, {DType::kI32, 1}, x, y, small);
      }
      Value* a = emit(binary->a);
      Value* b = emit(binary->b);
      Value* r = ops_.binary(binary->op, binary->a.type(), a, b, small);
      if (r) return r;
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{} on {}", ir::to_text(binary->op), to_text(binary->a.dtype())),
                  e.type());
    }
    case ir::ExprKind::kSelect:
      return emit_select(*e.as<ir::Select>());
    case ir::ExprKind::kCast:
      return emit_cast(*e.as<ir::Cast>());
    case ir::ExprKind::kLoad:
      return emit_load(*e.as<ir::Load>());
    case ir::ExprKind::kRamp:
      return emit_ramp(*e.as<ir::Ramp>());
    case ir::ExprKind::kBroadcast:
      return emit_broadcast(*e.as<ir::Broadcast>());
    case ir::ExprKind::kShuffle:
      return ops_.shuffle(emit(e.as<ir::Shuffle>()->value), e.as<ir::Shuffle>()->picks);
    case ir::ExprKind::kCall:
      return emit_call(*e.as<ir::Call>());
  }
  return nullptr;
}

namespace {

// A constant without a fraction, the same in all lanes.
std::optional<std::int64_t> whole_constant(const Expr& e) {
  if (const auto* copy = e.as<ir::Broadcast>()) return whole_constant(copy->value);
  const auto* f = e.as<ir::FloatImm>();
  constexpr double kMost = 1 << 16;
  if (!f || !(std::abs(f->value) < kMost) || f->value != std::trunc(f->value)) return std::nullopt;
  return static_cast<std::int64_t>(f->value);
}

// round(value) + offset.
struct Rounded {
  Expr value;
  std::int64_t offset = 0;
};
std::optional<Rounded> rounded(const Expr& e) {
  if (const auto* call = e.as<ir::Call>(); call && call->fn == ir::Intrinsic::kRound)
    return Rounded{call->args[0]};
  const auto* sum = e.as<ir::Binary>();
  const auto offset = sum && sum->op == ir::BinaryOp::kAdd ? whole_constant(sum->b) : std::nullopt;
  auto inner = offset ? rounded(sum->a) : std::nullopt;
  if (!inner || inner->offset != 0) return std::nullopt;
  inner->offset = *offset;
  return inner;
}

}  // namespace

// Numbers become bytes by rounding, and are often wanted as numbers again at once.
Value* Emitter::emit_cast(const ir::Cast& cast) {
  const auto is_byte = [](DType t) { return t == DType::kU8 || t == DType::kI8; };
  const auto wide = [](const Expr& e) { return e.dtype() == DType::kF32 && e.lanes() > 1; };
  const Expr& value = cast.value;
  const auto* byte = value.as<ir::Cast>();
  if (cast.type.dtype == DType::kF32 && byte && is_byte(value.dtype()) && wide(byte->value) &&
      rounded(byte->value))
    return ops_.limited(value.dtype(), emit(byte->value));
  if (is_byte(cast.type.dtype) && wide(value)) {
    const auto whole = rounded(value);
    Value* out =
        whole ? ops_.cast_rounded(value.type(), cast.type.dtype, whole->offset, emit(whole->value))
              : nullptr;
    if (out) return out;
  }
  return ops_.cast(value.type(), cast.type.dtype, emit(value));
}

Value* Emitter::emit_ramp(const ir::Ramp& ramp) {
  Value* base = b_.CreateVectorSplat(static_cast<unsigned>(ramp.type.lanes), emit(ramp.base));
  std::vector<llvm::Constant*> steps;
  for (int i = 0; i < ramp.type.lanes; ++i) {
    steps.push_back(ops_.int_constant(ramp.type.with_lanes(1), i * ramp.stride));
  }
  return b_.CreateAdd(base, llvm::ConstantVector::get(steps));
}

Value* Emitter::emit_broadcast(const ir::Broadcast& copy) {
  const int inner = copy.value.lanes();
  if (const auto* load = copy.value.as<ir::Load>()) {
    if (Value* v = lane_group_splat(*load, copy.type.lanes)) return v;
  }
  Value* v = emit(copy.value);
  if (inner == 1) return b_.CreateVectorSplat(static_cast<unsigned>(copy.type.lanes), v);
  const int unit_bits = inner * size_bytes(copy.type.dtype) * 8;
  if (copy.type.dtype != DType::kBool && (unit_bits == 16 || unit_bits == 32 || unit_bits == 64)) {
    // As copies of one wider number: a single duplicating instruction on every target.
    Value* unit = b_.CreateBitCast(v, b_.getIntNTy(static_cast<unsigned>(unit_bits)));
    Value* splat = b_.CreateVectorSplat(static_cast<unsigned>(copy.type.lanes / inner), unit);
    return b_.CreateBitCast(splat, ops_.type(copy.type));
  }
  std::vector<int> lanes;
  for (int i = 0; i < copy.type.lanes; ++i) lanes.push_back(i % inner);
  return ops_.shuffle(v, lanes);
}

Value* Emitter::emit_call(const ir::Call& call) {
  if (Value* v = emit_thread_call(call)) return v;
  if (call.fn == ir::Intrinsic::kPrefetch && policy_.prefetches) {
    const auto* load = call.args[0].as<ir::Load>();
    const auto place = load ? place_of(load->buffer, load->indices) : std::nullopt;
    if (place) {
      // Kernels of tiles ask for whole panels, which L1 does not hold.
      constexpr unsigned kIntoL1 = 3, kIntoL2 = 2;
      Value* address = pointer(load->buffer, place->base);
      b_.CreateIntrinsic(
          llvm::Intrinsic::prefetch, {address->getType()},
          {address, b_.getInt32(0), b_.getInt32(uses_tiles_ ? kIntoL2 : kIntoL1), b_.getInt32(1)});
    }
    return ops_.int_constant(call.type, 0);
  }
  std::vector<Value*> args;
  for (const Expr& arg : call.args) args.push_back(emit(arg));
  if (Value* r = ops_.call(call, args)) return r;
  return fail(ErrorCode::kUnsupported,
              fmt::format("{} on {}", ir::to_text(call.fn), to_text(call.args[0].dtype())),
              call.type);
}

namespace {

// A branch costs about as much as so many operations.
constexpr int kCheap = 32, kCallCost = 8;

bool is_cheap(const Expr& e) {
  int cost = 0;
  ir::for_each_expr(e, [&](const Expr& x) { cost += x.as<ir::Call>() ? kCallCost : 1; });
  return cost <= kCheap;
}

// Beyond registers.
bool reads_memory(const Expr& e) {
  bool found = false;
  ir::for_each_expr(e, [&](const Expr& x) {
    const auto* load = x.as<ir::Load>();
    found = found || (load && load->buffer->scope != ir::Scope::kStack);
  });
  return found;
}

// What is read or chosen to know a value, whatever the data.
class Made final : public ir::Visitor {
 public:
  std::vector<const ir::ExprNode*> found;

 private:
  using ir::Visitor::visit;
  void visit(const ir::Load& load) override {
    found.push_back(&load);
    Visitor::visit(load);
  }
  void visit(const ir::Select& select) override {
    found.push_back(&select);
    (*this)(select.cond);
  }
};

}  // namespace

// Whether it may read outside of a buffer, beyond what was `made` before.
bool Emitter::may_fault(const Expr& e, const std::vector<const ir::ExprNode*>& made) const {
  const auto* load = e.as<ir::Load>();
  const auto* select = e.as<ir::Select>();
  const bool known =
      (load || select) && std::any_of(made.begin(), made.end(), [&](const ir::ExprNode* n) {
        return n->kind == e.kind() && ir::equal(Expr(n), e);
      });
  if (known || !contains_load(e)) return false;
  const auto any = [&](const std::vector<Expr>& parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const Expr& part) { return may_fault(part, made); });
  };
  if (load) {
    const auto range = range_of(*load, ranges_);
    return any(load->indices) || !range || range->low < 0 || range->high >= load->buffer.size();
  }
  if (select) return any({select->cond, select->on_true, select->on_false});
  if (const auto* binary = e.as<ir::Binary>()) return any({binary->a, binary->b});
  if (const auto* cast = e.as<ir::Cast>()) return may_fault(cast->value, made);
  if (const auto* copy = e.as<ir::Broadcast>()) return may_fault(copy->value, made);
  if (const auto* shuffle = e.as<ir::Shuffle>()) return may_fault(shuffle->value, made);
  if (const auto* call = e.as<ir::Call>()) return any(call->args);
  return true;
}

// Conditions on loop variables alone hold for long runs: a branch reads one side only. Those on
// data do not, and lanes that differ would be computed one by one. Copies to the shared memory of a
// GPU keep their branches: what is outside is not fetched.
bool Emitter::may_make_both(const ir::Select& select) const {
  const Expr &x = select.on_true, &y = select.on_false;
  Made made;
  made(select.cond);
  if (may_fault(x, made.found) || may_fault(y, made.found)) return false;
  if (!reads_memory(x) && !reads_memory(y)) return true;
  if (!contains_load(select.cond) || (launch_ && copies_)) return false;
  return select.cond.lanes() > 1 || (is_cheap(x) && is_cheap(y));
}

Value* Emitter::emit_select(const ir::Select& select) {
  Value* cond = emit(select.cond);
  if (may_make_both(select))
    return b_.CreateSelect(cond, emit(select.on_true), emit(select.on_false));
  if (cond->getType()->isVectorTy()) return emit_lanes_select(select, cond);
  if (Value* v = load_or(select, cond)) return v;
  return branch(
      cond, [&] { return emit_lazily(select.on_true); },
      [&] { return emit_lazily(select.on_false); });
}

Value* Emitter::emit_lazily(const Expr& e) {
  const Memo outer = memo_;  // values of the branch do not dominate what follows
  ++lazy_depth_;
  Value* v = emit(e);
  --lazy_depth_;
  memo_ = outer;
  return v;
}

Value* Emitter::branch(Value* cond, const std::function<Value*()>& on_true,
                       const std::function<Value*()>& on_false) {
  llvm::BasicBlock* then_block = new_block("then");
  llvm::BasicBlock* else_block = new_block("else");
  llvm::BasicBlock* join = new_block("join");
  b_.CreateCondBr(cond, then_block, else_block);
  b_.SetInsertPoint(then_block);
  Value* x = on_true();
  llvm::BasicBlock* then_end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(else_block);
  Value* y = on_false();
  llvm::BasicBlock* else_end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  llvm::PHINode* phi = b_.CreatePHI(x->getType(), 2);
  phi->addIncoming(x, then_end);
  phi->addIncoming(y, else_end);
  return phi;
}

// Most vectors are entirely inside or outside the guarded region, so both get a fast path.
Value* Emitter::emit_lanes_select(const ir::Select& select, Value* cond) {
  if (Value* v = masked_load(select, cond)) return v;
  return branch(
      b_.CreateAndReduce(cond), [&] { return emit_lazily(select.on_true); },
      [&] {
        return branch(
            b_.CreateOrReduce(cond), [&] { return emit_each_lane(select, cond); },
            [&] { return emit_lazily(select.on_false); });
      });
}

Value* Emitter::emit_each_lane(const ir::Select& select, Value* cond) {
  Value* result = llvm::PoisonValue::get(ops_.type(select.type));
  for (int lane = 0; lane < select.type.lanes; ++lane) {
    const auto x = lane_of(select.on_true, lane);
    const auto y = lane_of(select.on_false, lane);
    if (!x || !y)
      return fail(ErrorCode::kUnsupported, "dot product below a vector select", select.type);
    keep_alive_.push_back(*x);
    keep_alive_.push_back(*y);
    Value* v = branch(
        ops_.shuffle(cond, {lane}), [&] { return emit_lazily(*x); },
        [&] { return emit_lazily(*y); });
    result = b_.CreateInsertElement(result, v, static_cast<std::uint64_t>(lane));
  }
  return result;
}

// select(mask, dense load, value without loads) is one masked load where the target has them.
Value* Emitter::masked_load(const ir::Select& select, Value* cond) {
  const auto* load = select.on_true.as<ir::Load>();
  if (target_.arch != target::Arch::kX86_64 || !load || may_fault(select.on_false)) return nullptr;
  const auto place = place_of(load->buffer, load->indices);
  if (!place || place->stride != 1 || size_bytes(load->type.dtype) < 4) return nullptr;
  Value* other = emit(select.on_false);
  const auto align = llvm::Align(static_cast<std::uint64_t>(size_bytes(load->type.dtype)));
  llvm::CallInst* v = b_.CreateMaskedLoad(ops_.memory_type(load->type),
                                          pointer(load->buffer, place->base), align, cond, other);
  annotate(v, load->buffer);
  return v;
}

// What a thread of a GPU reads outside of its buffer is read from the beginning of it instead: a
// branch for each load would keep the next from being on its way, and equal ones from being one.
// Copies to shared memory keep their branches, except for single halves.
Value* Emitter::load_or(const ir::Select& select, Value* cond) {
  const std::int64_t size = size_bytes(select.type.dtype);
  const int lanes = select.type.lanes;
  if (!launch_ || (copies_ && (lanes != 1 || size != 2))) return nullptr;
  if (may_fault(select.on_false)) return nullptr;
  if (const auto* inner = select.on_true.as<ir::Select>()) {
    if (may_fault(inner->cond) || inner->cond.lanes() != 1) return nullptr;
    Value* v = load_or(*inner, b_.CreateLogicalAnd(cond, emit(inner->cond)));
    return v ? b_.CreateSelect(cond, v, emit(select.on_false)) : nullptr;
  }
  const auto* load = select.on_true.as<ir::Load>();
  if (!load || load->buffer->scope == ir::Scope::kStack ||
      load->buffer->scope == ir::Scope::kShared) {
    return nullptr;
  }
  // Computed whatever the condition is.
  if (std::any_of(load->indices.begin(), load->indices.end(), contains_load)) return nullptr;
  const auto place = place_of(load->buffer, load->indices);
  if (!place || (lanes > 1 && place->stride != 1)) return nullptr;
  // The place within 16 bytes stays, so that neighbours are still loaded together.
  const std::int64_t unit = std::max<std::int64_t>(16 / size, 1);
  Linear start = place->base;
  const std::int64_t within = (start.constant % unit + unit) % unit;
  start.constant -= within;
  if (within + lanes > load->buffer.size()) return nullptr;
  Value* address =
      b_.CreateSelect(cond, pointer(load->buffer, start), pointer(load->buffer, Linear{}));
  Value* loaded = load_at(load->buffer, offset_pointer(address, load->buffer, within), lanes,
                          align_bytes(load->buffer, place->base, lanes));
  return b_.CreateSelect(cond, loaded, emit(select.on_false));
}

// Sums that wrap in 32 bits would wrap in 64: no part is larger than its range.
Value* Emitter::emit_narrow(const Expr& e) {
  if (!policy_.narrow_indices || e.dtype() != DType::kI64 || e.lanes() != 1) return nullptr;
  if (const auto found = memo_.narrow.find(e.get()); found != memo_.narrow.end())
    return found->second;
  if (!fits_32_bits(range_of(e, ranges_))) return nullptr;
  if (const auto c = ir::as_const_int(e)) return b_.getInt32(static_cast<std::uint32_t>(*c));
  if (e.as<ir::Var>()) {
    const auto found = frame_.vars.find(e.get());
    return found == frame_.vars.end() ? nullptr : found->second.narrow;
  }
  const auto* binary = e.as<ir::Binary>();
  Value* a = emit_narrow(binary->a);
  Value* b = a ? emit_narrow(binary->b) : nullptr;
  if (!b) return nullptr;
  const bool small = is_non_negative(binary->a) && is_non_negative(binary->b);
  Value* v = ops_.binary(binary->op, {DType::kI32, 1}, a, b, small);
  memo_.narrow[e.get()] = v;
  keep_alive_.push_back(e);
  return v;
}

Value* Emitter::emit_narrow_at(const Expr& e, int depth) {
  if (depth < 0) return emit_narrow(e);
  Memo here;
  std::swap(here, memo_);
  b_.SetInsertPoint(frame_.scopes[static_cast<std::size_t>(depth)].top->getTerminator());
  Value* v = emit_narrow(e);
  std::swap(here, memo_);
  return v;
}

Value* Emitter::widened(Value* narrow, const Expr& e) {
  llvm::Type* i64 = b_.getInt64Ty();
  const auto range = range_of(e, ranges_);
  return range && range->low >= 0 ? b_.CreateZExt(narrow, i64) : b_.CreateSExt(narrow, i64);
}

int Emitter::depth_of(const Expr& e) const {
  switch (e.kind()) {
    case ir::ExprKind::kIntImm:
      return 0;
    case ir::ExprKind::kVar: {
      const auto found = frame_.vars.find(e.get());
      return found == frame_.vars.end() ? -1 : found->second.depth;
    }
    case ir::ExprKind::kBinary: {
      const int a = depth_of(e.as<ir::Binary>()->a);
      const int b = depth_of(e.as<ir::Binary>()->b);
      return a < 0 || b < 0 ? -1 : std::max(a, b);
    }
    case ir::ExprKind::kCast:
      return depth_of(e.as<ir::Cast>()->value);
    default:
      return -1;
  }
}

Value* Emitter::emit_hoisted(const Expr& e, int depth) {
  if (e.as<ir::Var>()) return emit_node(e);
  LoopScope& scope = frame_.scopes[static_cast<std::size_t>(depth)];
  if (const auto found = scope.values.find(e.get()); found != scope.values.end())
    return found->second;
  keep_alive_.push_back(e);
  Memo here;
  std::swap(here, memo_);
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(scope.top->getTerminator());
  Value* v = emit(e);
  std::swap(here, memo_);
  scope.values[e.get()] = v;
  return v;
}

}  // namespace tessera::codegen
