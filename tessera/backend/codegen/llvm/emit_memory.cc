#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/emitter.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::codegen {

using ir::Expr;
using llvm::Value;

namespace {

// Of the 30 general registers of AArch64, with some left for bases and counters.
constexpr std::size_t kMostRunningPointers = 20;

}  // namespace

void Emitter::make_alias_scopes() {
  std::vector<const ir::BufferNode*> all;
  for (const ir::Buffer& param : params_) all.push_back(param.get());
  if (launch_) {
    for (const ir::Buffer& shared : launch_->shared) all.push_back(shared.get());
  }
  ir::for_each_stmt(body_, [&](const ir::Stmt& s) {
    if (const auto* allocate = s.as<ir::Allocate>()) all.push_back(allocate->buffer.get());
  });
  llvm::MDBuilder metadata(b_.getContext());
  llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain(name_);
  std::vector<llvm::Metadata*> scopes;
  for (const ir::BufferNode* buffer : all) {
    scopes.push_back(metadata.createAnonymousAliasScope(domain, buffer->name));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<llvm::Metadata*> others;
    for (std::size_t j = 0; j < all.size(); ++j) {
      if (all[j] != all[i]) others.push_back(scopes[j]);
    }
    alias_[all[i]] = {llvm::MDNode::get(b_.getContext(), {scopes[i]}),
                      llvm::MDNode::get(b_.getContext(), others)};
  }
}

void Emitter::annotate(llvm::Instruction* access, const ir::Buffer& buffer) {
  const auto found = alias_.find(buffer.get());
  if (found == alias_.end()) return;
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, found->second.first);
  access->setMetadata(llvm::LLVMContext::MD_noalias, found->second.second);
}

Expr Emitter::canonical(const Expr& e) {
  if (e.as<ir::Var>()) return e;
  std::vector<Expr>& same_hash = canonical_[ir::hash(e)];
  for (const Expr& known : same_hash) {
    if (ir::equal(known, e)) return known;
  }
  same_hash.push_back(e);
  return e;
}

// Factors are numbered as they are met.
std::size_t Emitter::number_of(const Expr& factor) {
  return factor_numbers_.try_emplace(factor.get(), factor_numbers_.size()).first->second;
}

// Terms are added outermost loop first, each at the top of the loop that fixes it, so that what is
// left for the innermost loop is one pointer per buffer, advanced with the loop, plus constant
// offsets. Not "inbounds": with the constant added last, a partial sum may lie outside of the
// buffer.
Value* Emitter::pointer(const ir::Buffer& buffer, const Linear& at) {
  const auto found = frame_.buffers.find(buffer.get());
  if (found == frame_.buffers.end()) {
    fail(ErrorCode::kBuildFailed, fmt::format("buffer {} is not in scope", buffer->name), {});
    return llvm::PoisonValue::get(b_.getPtrTy());
  }
  std::map<int, std::vector<Linear::Term>> by_depth;
  std::vector<Linear::Term> in_place;
  for (const Linear::Term& term : at.terms) {
    const Linear::Term known{canonical(term.factor), term.coef};
    const int depth = depth_of(known.factor);
    (depth < 0 ? in_place : by_depth[std::max(depth, found->second.depth)]).push_back(known);
  }
  Value* p = found->second.value;
  std::int64_t offset = at.constant;
  std::vector<std::int64_t> key = {reinterpret_cast<std::int64_t>(buffer.get())};
  for (auto& [depth, terms] : by_depth) {
    // Not by address, which differs from run to run.
    std::sort(terms.begin(), terms.end(), [this](const Linear::Term& x, const Linear::Term& y) {
      return number_of(x.factor) < number_of(y.factor);
    });
    for (const Linear::Term& term : terms) {
      key.push_back(reinterpret_cast<std::int64_t>(term.factor.get()));
      key.push_back(term.coef);
    }
    LoopScope& scope = frame_.scopes[static_cast<std::size_t>(depth)];
    const bool runs = !scope.has_loops && scope.var && terms.size() == 1 &&
                      terms[0].factor.get() == scope.var &&
                      scope.running.size() < kMostRunningPointers;
    if (runs) {
      key.push_back(anchor_of(buffer, offset));
      offset -= key.back();
    }
    Value*& known = scope.pointers[key];
    if (!known && runs) known = running_pointer(p, buffer, terms[0].coef, key.back(), scope);
    if (!known) {
      known = extend_pointer(p, buffer, terms, depth);
      if (scope.has_loops && policy_.hidden_pointers) known = opaque_pointer(known, scope);
    }
    p = known;
  }
  if (!in_place.empty()) p = extend_pointer(p, buffer, in_place, -1);
  return offset_pointer(p, buffer, offset);
}

// Advances with an innermost loop from `base` + `anchor`. LLVM's strength reduction would come to
// the same, but takes a quarter of the time to emit the code, so it is switched off.
Value* Emitter::running_pointer(Value* base, const ir::Buffer& buffer, std::int64_t step,
                                std::int64_t anchor, LoopScope& scope) {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  const auto number = [&](std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); };
  llvm::Type* element = ops_.memory_type({buffer->dtype, 1});
  b_.SetInsertPoint(scope.before->getTerminator());
  Value* first = b_.CreateAdd(b_.CreateMul(scope.begin, number(step)), number(anchor));
  Value* start = b_.CreateGEP(element, base, first);
  b_.SetInsertPoint(scope.top, scope.top->begin());
  llvm::PHINode* p = b_.CreatePHI(start->getType(), 2);
  p->addIncoming(start, scope.before);
  scope.running.push_back({p, element, step});
  return p;
}

// Constant elements to add to a running pointer once, so that what is left of `offset` fits into
// load and store instructions: 12 bits of a whole vector, or of an element, on AArch64.
std::int64_t Emitter::anchor_of(const ir::Buffer& buffer, std::int64_t offset) const {
  const std::int64_t size = size_bytes(buffer->dtype);
  if (target_.arch != target::Arch::kAArch64) return 0;
  if (offset * size >= -256 && offset * size <= 240) return 0;
  constexpr std::int64_t kVectorBytes = 16, kReach = 4096;
  const std::int64_t lanes = kVectorBytes / size;
  const auto modulo = [](std::int64_t a, std::int64_t b) { return (a % b + b) % b; };
  return offset - modulo(offset, kReach) + modulo(offset, lanes);
}

Value* Emitter::extend_pointer(Value* base, const ir::Buffer& buffer,
                               const std::vector<Linear::Term>& terms, int depth) {
  // In place, a factor may branch and end in another block: nothing is restored then.
  std::optional<llvm::IRBuilderBase::InsertPointGuard> guard;
  if (depth >= 0) guard.emplace(b_);
  if (policy_.narrow_indices) {
    ir::Expr index = ir::int_imm(0);
    for (const Linear::Term& term : terms)
      index = ir::add(index, ir::mul(term.factor, ir::int_imm(term.coef)));
    if (Value* narrow = emit_narrow_at(index, depth))
      return b_.CreateGEP(ops_.memory_type({buffer->dtype, 1}), base, narrow);
  }
  Value* sum = nullptr;
  for (const Linear::Term& term : terms) {
    Value* factor = depth < 0 ? emit(term.factor) : emit_hoisted(term.factor, depth);
    if (depth >= 0)
      b_.SetInsertPoint(frame_.scopes[static_cast<std::size_t>(depth)].top->getTerminator());
    Value* part = b_.CreateMul(factor, b_.getInt64(static_cast<std::uint64_t>(term.coef)));
    sum = sum ? b_.CreateAdd(sum, part) : part;
  }
  return b_.CreateGEP(ops_.memory_type({buffer->dtype, 1}), base, sum);
}

// Hides how a pointer of an outer loop is computed: strength reduction has nothing to win outside
// of innermost loops, and its work on the tiles of a GEMM nest takes a fifth of the time to emit
// it.
Value* Emitter::opaque_pointer(Value* p, const LoopScope& scope) {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(scope.top->getTerminator());
  auto* signature = llvm::FunctionType::get(p->getType(), {p->getType()}, false);
  return b_.CreateCall(llvm::InlineAsm::get(signature, "", "=r,0", /*hasSideEffects=*/false), p);
}

Value* Emitter::offset_pointer(Value* base, const ir::Buffer& buffer, std::int64_t elements) {
  if (elements == 0) return base;
  return b_.CreateGEP(ops_.memory_type({buffer->dtype, 1}), base,
                      b_.getInt64(static_cast<std::uint64_t>(elements)));
}

// Of an access of so many lanes there. What the caller gives begins on a multiple of 64 bytes.
// Single halves of a GPU have it, too: those side by side are then stored together.
std::int64_t Emitter::align_bytes(const ir::Buffer& buffer, const Linear& at, int lanes) const {
  const std::int64_t size = size_bytes(buffer->dtype);
  const bool joins = launch_ && size == 2;
  if (!policy_.aligned_vectors || (lanes == 1 && !joins)) return size;
  std::int64_t unit = at.constant;
  for (const Linear::Term& term : at.terms) unit = std::gcd(unit, term.coef);
  std::int64_t align = kAlignment;
  while (unit * size % align != 0) align /= 2;
  return align;
}

Value* Emitter::load_at(const ir::Buffer& buffer, Value* address, int lanes,
                        std::int64_t align_bytes) {
  const ir::Type type{buffer->dtype, lanes};
  const auto align = llvm::Align(static_cast<std::uint64_t>(align_bytes));
  llvm::LoadInst* v = b_.CreateAlignedLoad(ops_.memory_type(type), address, align);
  annotate(v, buffer);
  return ops_.from_memory(type, v);
}

Value* Emitter::load_dense(const ir::Buffer& buffer, const Linear& at, int lanes) {
  return load_at(buffer, pointer(buffer, at), lanes, align_bytes(buffer, at, lanes));
}

Value* Emitter::emit_load(const ir::Load& load) {
  const int lanes = load.type.lanes;
  const auto place = place_of(load.buffer, load.indices);
  if (!place) return gather(load, place);
  if (lanes == 1) {
    if (Value* v = lane_group_splat(load, 1)) return v;
    return load_dense(load.buffer, place->base, 1);
  }
  if (Value* v = transposed_load(load)) return v;
  switch (place->stride) {
    case 0:
      if (Value* v = lane_group_splat(load, lanes)) return v;
      return b_.CreateVectorSplat(static_cast<unsigned>(lanes),
                                  load_dense(load.buffer, place->base, 1));
    case 1:
      return load_dense(load.buffer, place->base, lanes);
    case -1: {
      Linear first = place->base;
      first.constant -= lanes - 1;
      std::vector<int> reversed;
      for (int i = lanes; i-- > 0;) reversed.push_back(i);
      return ops_.shuffle(load_dense(load.buffer, first, lanes), reversed);
    }
    case 2:
      if (lanes >= 4 && lanes % 2 == 0) return load_pairs(load.buffer, *place, lanes);
      return gather(load, place);
    default:
      return gather(load, place);
  }
}

// Stride 2: two dense loads, the second one ending at the last wanted element, so nothing outside
// [first, last] is touched.
Value* Emitter::load_pairs(const ir::Buffer& buffer, const Place& place, int lanes) {
  Linear tail = place.base;
  tail.constant += lanes - 1;
  Value* low = load_dense(buffer, place.base, lanes);
  Value* high = load_dense(buffer, tail, lanes);
  std::vector<int> picks;
  for (int i = 0; i < lanes; ++i) {
    const int position = 2 * i;
    picks.push_back(position < lanes ? position : lanes + position - (lanes - 1));
  }
  return b_.CreateShuffleVector(low, high, picks);
}

std::vector<Value*> Emitter::lane_pointers(const ir::Buffer& buffer,
                                           const std::vector<Expr>& indices,
                                           const std::optional<Place>& place, int lanes) {
  std::vector<Value*> out;
  if (place) {
    Value* first = pointer(buffer, place->base);
    for (int i = 0; i < lanes; ++i) out.push_back(offset_pointer(first, buffer, i * place->stride));
    return out;
  }
  const std::vector<std::int64_t> strides = row_major_strides(buffer);
  Linear scalar;
  Value* offsets = nullptr;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (indices[d].lanes() == 1) {
      add_scaled(&scalar, linear_form(indices[d]), strides[d]);
      continue;
    }
    Value* part = b_.CreateMul(emit(indices[d]), ops_.int_constant(indices[d].type(), strides[d]));
    offsets = offsets ? b_.CreateAdd(offsets, part) : part;
  }
  Value* base = pointer(buffer, scalar);
  for (int i = 0; i < lanes; ++i) {
    out.push_back(
        b_.CreateGEP(ops_.memory_type({buffer->dtype, 1}), base, ops_.shuffle(offsets, {i})));
  }
  return out;
}

Value* Emitter::gather(const ir::Load& load, const std::optional<Place>& place) {
  Value* v = llvm::PoisonValue::get(ops_.type(load.type));
  const std::vector<Value*> pointers =
      lane_pointers(load.buffer, load.indices, place, load.type.lanes);
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    v = b_.CreateInsertElement(
        v, load_at(load.buffer, pointers[i], 1, size_bytes(load.buffer->dtype)), i);
  }
  return v;
}

void Emitter::store_at(const ir::Buffer& buffer, Value* address, Value* value, int lanes,
                       std::int64_t align_bytes) {
  const auto align = llvm::Align(static_cast<std::uint64_t>(align_bytes));
  annotate(b_.CreateAlignedStore(ops_.to_memory({buffer->dtype, lanes}, value), address, align),
           buffer);
}

void Emitter::emit_store(const ir::Store& store) {
  if (emit_group_product(store)) return;
  const int lanes = store.value.lanes();
  copies_ = store.buffer->scope == ir::Scope::kShared;
  Value* value = emit(store.value);
  copies_ = false;
  if (grouped_ && store.buffer->scope == ir::Scope::kStack) {  // as products hold them
    const auto all = place_of(store.buffer, store.indices);
    std::vector<Value*> each;
    for (int i = 0; i < lanes; ++i) each.push_back(ops_.shuffle(value, {i}));
    if (all && (lanes == 1 || all->stride == 1)) return store_sums(store.buffer, all->base, each);
  }
  if (transposed_store(store, value)) return;
  const auto place = place_of(store.buffer, store.indices);
  // LLVM 19 writes wrong lanes for a <3 x i8> store of a truncated <3 x i64> on AArch64.
  const bool refused =
      lanes == 3 && size_bytes(store.buffer->dtype) == 1 && target_.arch == target::Arch::kAArch64;
  if (place && (lanes == 1 || (place->stride == 1 && !refused))) {
    return store_at(store.buffer, pointer(store.buffer, place->base), value, lanes,
                    align_bytes(store.buffer, place->base, lanes));
  }
  const std::vector<Value*> pointers = lane_pointers(store.buffer, store.indices, place, lanes);
  for (int i = 0; i < lanes; ++i) {
    store_at(store.buffer, pointers[static_cast<std::size_t>(i)], ops_.shuffle(value, {i}), 1,
             size_bytes(store.buffer->dtype));
  }
}

namespace {

// Loads whose value is only wanted as copies in every lane, outside of lazily evaluated
// expressions. With `scalars` also loads of one element that is used as it is.
class SplatLoads final : public ir::Visitor {
 public:
  explicit SplatLoads(bool scalars) : scalars_(scalars) {}
  std::vector<const ir::Load*> found;

 private:
  using ir::Visitor::visit;
  // What threads do together takes places, not values.
  void visit(const ir::Call& call) override {
    if (!scalars_ || call.fn <= ir::Intrinsic::kBitcast) Visitor::visit(call);
  }
  void visit(const ir::Select& select) override { (*this)(select.cond); }
  void visit(const ir::Broadcast& copy) override {
    const auto* load = copy.value.as<ir::Load>();
    if (load && !scalars_) found.push_back(load);
    Visitor::visit(copy);
  }
  void visit(const ir::Load& load) override {
    if (load.type.lanes == 1 && scalars_) found.push_back(&load);
    if (load.type.lanes > 1) {
      const auto place = place_of(load.buffer, load.indices);
      if (place && place->stride == 0) found.push_back(&load);
    }
    Visitor::visit(load);
  }
  bool scalars_;
};

// Elements that make up one lane of a by-lane instruction for such a load; 0 if there is none.
int lane_unit(const ir::Load& load, const Place& place) {
  const DType t = load.type.dtype;
  if (load.type.lanes == 1 || place.stride == 0) {
    return t == DType::kF32 || t == DType::kF64 || t == DType::kF16 ? 1 : 0;
  }
  if (place.stride != 1 || load.type.lanes * size_bytes(t) != 4) return 0;
  return t == DType::kI8 || t == DType::kU8 || t == DType::kBF16 ? load.type.lanes : 0;
}

}  // namespace

// AArch64 multiplies by a lane of a vector for free, so A[k*8+0..7], each broadcast, is two vector
// loads. Threads of a GPU load any neighbours by one access. Elsewhere a broadcasting load is as
// cheap as a plain one.
void Emitter::find_lane_groups(const std::vector<const ir::StmtNode*>& region) {
  groups_.clear();
  group_of_.clear();
  if (target_.arch != target::Arch::kAArch64 && !launch_) return;
  SplatLoads splats(launch_ != nullptr);
  std::set<const ir::BufferNode*> stored;
  for (const ir::StmtNode* s : region) {
    if (s->kind == ir::StmtKind::kStore) {
      const auto* store = static_cast<const ir::Store*>(s);
      stored.insert(store->buffer.get());
      splats(store->value);
      continue;
    }
    const auto* evaluate = static_cast<const ir::Evaluate*>(s);
    const auto* call = evaluate->value.as<ir::Call>();
    if (!launch_) {
      splats(evaluate->value);
    } else if (call && !call->args.empty()) {
      if (const auto* place = call->args[0].as<ir::Load>()) stored.insert(place->buffer.get());
    }
  }
  std::map<std::vector<std::int64_t>, SplatFamily> families;
  for (const ir::Load* load : splats.found) {
    const auto place = place_of(load->buffer, load->indices);
    if (!place || stored.contains(load->buffer.get())) continue;
    if (launch_ && load->buffer->scope == ir::Scope::kStack) continue;
    const int unit = lane_unit(*load, *place);
    const std::vector<std::int64_t> key = address_key(load->buffer, place->base);
    if (unit == 0 || key.empty()) continue;
    const auto [family, added] =
        families.try_emplace(key, SplatFamily{load->buffer, place->base, unit, {}});
    if (family->second.unit == unit) family->second.loads[place->base.constant].push_back(load);
  }
  for (const auto& [key, family] : families) group_lanes(family);
}

// Buffer and variable part of an address; empty when it must be computed in place.
std::vector<std::int64_t> Emitter::address_key(const ir::Buffer& buffer, const Linear& at) {
  std::vector<std::pair<std::int64_t, std::int64_t>> terms;
  for (const Linear::Term& term : at.terms) {
    if (depth_of(term.factor) < 0) return {};
    terms.emplace_back(reinterpret_cast<std::int64_t>(canonical(term.factor).get()), term.coef);
  }
  std::sort(terms.begin(), terms.end());
  std::vector<std::int64_t> key = {reinterpret_cast<std::int64_t>(buffer.get())};
  for (const auto& [factor, coef] : terms) key.insert(key.end(), {factor, coef});
  return key;
}

// Cuts runs of neighbouring units into 16-byte groups; what remains of a run, or does not lie as a
// GPU wants it, may make one of 8 bytes.
void Emitter::group_lanes(const SplatFamily& family) {
  const int unit_bytes = family.unit * size_bytes(family.buffer->dtype);
  const auto full = static_cast<std::size_t>(16 / unit_bytes);
  std::vector<std::int64_t> offsets;
  for (const auto& [offset, loads] : family.loads) offsets.push_back(offset);
  for (std::size_t begin = 0; begin < offsets.size();) {
    std::size_t units = 1;
    while (begin + units < offsets.size() && units < full &&
           offsets[begin + units] == offsets[begin + units - 1] + family.unit) {
      ++units;
    }
    const auto lies = [&](std::size_t n) {
      Linear at = family.at;
      at.constant = offsets[begin];
      const auto lanes = static_cast<int>(n) * family.unit;
      return !launch_ ||
             align_bytes(family.buffer, at, lanes) >= lanes * size_bytes(family.buffer->dtype);
    };
    if (units < full || !lies(full)) units = units >= full / 2 && lies(full / 2) ? full / 2 : 1;
    if (units > 1) {
      Linear at = family.at;
      at.constant = offsets[begin];
      groups_.push_back({family.buffer, at, static_cast<int>(units), family.unit});
      for (std::size_t i = 0; i < units; ++i) {
        for (const ir::Load* load : family.loads.at(offsets[begin + i])) {
          group_of_[load] = {groups_.size() - 1, static_cast<int>(i)};
        }
      }
    }
    begin += units;
  }
}

Value* Emitter::lane_group_splat(const ir::Load& load, int total_lanes) {
  const auto found = group_of_.find(&load);
  if (found == group_of_.end()) return nullptr;
  LaneGroup& group = groups_[found->second.first];
  if (!group.loaded) {
    if (lazy_depth_ > 0) return nullptr;  // the vector would not be available after the branch
    group.loaded = load_dense(group.buffer, group.at, group.units * group.unit_lanes);
    if (group.unit_lanes > 1) {
      group.loaded = b_.CreateBitCast(
          group.loaded,
          llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(group.units)));
    }
  }
  const std::vector<int> lanes(static_cast<std::size_t>(total_lanes / group.unit_lanes),
                               found->second.second);
  return b_.CreateBitCast(ops_.shuffle(group.loaded, lanes),
                          ops_.type({load.type.dtype, total_lanes}));
}

}  // namespace tessera::codegen
