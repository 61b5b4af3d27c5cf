#include "tessera/scheduling/lower/pipeline_loops.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/scheduling/lower/private_copies.h"

namespace tessera::lower {
namespace {

ir::Stmt commit() { return ir::Evaluate::make(ir::call(ir::Intrinsic::kAsyncCommit, {})); }
ir::Stmt wait(std::int64_t groups) {
  return ir::Evaluate::make(ir::call(ir::Intrinsic::kAsyncWait, {ir::int_imm(groups)}));
}
// ... and for other threads.
ir::Stmt wait(std::int64_t groups, std::int64_t threads) {
  return ir::Evaluate::make(
      ir::call(ir::Intrinsic::kAsyncWait, {ir::int_imm(groups), ir::int_imm(threads)}));
}

ir::Stmt wait_for_products() {
  return ir::Evaluate::make(ir::call(ir::Intrinsic::kProductsWait, {}));
}

// Accesses of a buffer go to place number `slot` of a buffer with several.
class UseSlot final : public ir::Mutator {
 public:
  UseSlot(const std::map<ir::Buffer, ir::Buffer>& places, ir::Expr slot)
      : places_(places), slot_(std::move(slot)) {}

 private:
  using ir::Mutator::rewrite;
  ir::Expr index(const ir::Buffer& b, const ir::Expr& e) {
    const ir::Expr inner = (*this)(e);
    const auto* ramp = inner.as<ir::Ramp>();
    if (!ramp) return slot_ * b.size() + inner;
    return ir::Ramp::make(slot_ * b.size() + ramp->base, ramp->stride, ramp->type.lanes);
  }
  ir::Expr rewrite(const ir::Expr& e, const ir::Load& load) override {
    const auto it = places_.find(load.buffer);
    if (it == places_.end()) return Mutator::rewrite(e, load);
    return ir::Load::make(it->second, {index(load.buffer, load.indices[0])});
  }
  ir::Stmt rewrite(const ir::Stmt& s, const ir::Store& store) override {
    const auto it = places_.find(store.buffer);
    if (it == places_.end()) return Mutator::rewrite(s, store);
    return ir::Store::make(it->second, {index(store.buffer, store.indices[0])},
                           (*this)(store.value));
  }
  const std::map<ir::Buffer, ir::Buffer>& places_;
  ir::Expr slot_;
};

bool has_barrier(const ir::Stmt& s) {
  bool found = false;
  ir::for_each_stmt(s, [&](const ir::Stmt& x) { found = found || x.as<ir::Barrier>(); });
  return found;
}

bool has_group_product(const ir::Stmt& s) {
  bool found = false;
  ir::for_each_expr(s, [&](const ir::Expr& e) { found = found || ir::is_group_product(e); });
  return found;
}

// Sums of products that a thread holds.
std::set<ir::Buffer> sums_of(const std::vector<ir::Stmt>& uses) {
  std::set<ir::Buffer> out;
  for (const ir::Stmt& use : uses) {
    ir::for_each_stmt(use, [&](const ir::Stmt& s) {
      const auto* store = s.as<ir::Store>();
      const auto* call = store ? store->value.as<ir::Call>() : nullptr;
      if (call && call->fn == ir::Intrinsic::kMma) out.insert(store->buffer);
    });
  }
  return out;
}

// Fills shared memory from device memory and does nothing else.
bool is_copy(const ir::Stmt& s) {
  bool copy = !has_barrier(s);
  bool stores = false;
  ir::for_each_stmt(s, [&](const ir::Stmt& x) {
    if (const auto* store = x.as<ir::Store>()) {
      stores = true;
      copy = copy && store->buffer->scope == ir::Scope::kShared;
    }
    if (x.as<ir::Allocate>()) copy = false;
  });
  ir::for_each_expr(s, [&](const ir::Expr& e) {
    const auto* load = e.as<ir::Load>();
    if (load &&
        (load->buffer->scope == ir::Scope::kShared || load->buffer->scope == ir::Scope::kStack))
      copy = false;
  });
  return copy && stores;
}

class PipelineLoops final : public ir::Mutator {
 public:
  PipelineLoops(const LoopAttrs& attrs, std::set<ir::Buffer>* copied, Result<void>* result)
      : attrs_(attrs), copied_(copied), result_(result) {}

 private:
  using ir::Mutator::rewrite;

  ir::Stmt rewrite(const ir::Stmt& s, const ir::Allocate& alloc) override {
    const ir::Stmt body = (*this)(alloc.body);
    const auto it = places_.find(alloc.buffer);
    if (it != places_.end()) return ir::Allocate::make(it->second, body);
    return body.same_as(alloc.body) ? s : ir::Allocate::make(alloc.buffer, body);
  }

  ir::Stmt rewrite(const ir::Stmt& s, const ir::Store& store) override {
    shared_ = shared_ || store.buffer->scope == ir::Scope::kShared;
    if (ir::is_group_product(store.value) && result_->ok()) {
      *result_ = make_error(ErrorCode::kIllegalSchedule,
                            "products of warp groups ({}) must be in a pipelined loop",
                            store.buffer->name);
    }
    return s;
  }

  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    if (loop.loop_kind >= ir::LoopKind::kThreadX && loop.loop_kind <= ir::LoopKind::kThreadZ) {
      if (threads_.empty()) shared_ = false;
      threads_.push_back({loop.var, ir::as_const_int(loop.extent).value_or(0), attrs_.warp});
      const ir::Stmt out = Mutator::rewrite(s, loop);
      threads_.pop_back();
      return out;
    }
    const auto it = attrs_.pipeline.find(loop.var.get());
    if (it == attrs_.pipeline.end()) {
      const bool repeats =
          loop.loop_kind == ir::LoopKind::kSerial || loop.loop_kind == ir::LoopKind::kUnrolled;
      repeats_ += repeats;
      const ir::Stmt out = Mutator::rewrite(s, loop);
      repeats_ -= repeats;
      return out;
    }
    return pipeline(s, loop, it->second);
  }

  ir::Stmt refuse(const ir::Stmt& s, const ir::For& loop, const char* why) {
    if (result_->ok()) {
      *result_ = make_error(ErrorCode::kIllegalSchedule, "loop {} cannot be pipelined: {}",
                            loop.var.as<ir::Var>()->name, why);
    }
    return s;
  }

  ir::Stmt pipeline(const ir::Stmt& s, const ir::For& loop, const schedule::Pipeline& wanted) {
    const std::int64_t depth = wanted.stages;
    const auto extent = ir::as_const_int(loop.extent);
    const auto* block = loop.body.as<ir::Block>();
    if (!block || !extent) return refuse(s, loop, "it copies nothing to shared memory");
    std::vector<ir::Stmt> copies, uses;
    for (const ir::Stmt& child : block->stmts) {
      if (child.as<ir::Barrier>() && uses.empty()) continue;
      if (has_barrier(child)) return refuse(s, loop, "threads wait for each other inside");
      if (!uses.empty() && is_copy(child)) return refuse(s, loop, "a copy follows a use");
      (is_copy(child) ? copies : uses).push_back(child);
    }
    if (copies.empty()) return refuse(s, loop, "it copies nothing to shared memory");
    // Products of groups go on while the next iteration begins, so one place more is in use.
    const bool grouped = std::any_of(uses.begin(), uses.end(), has_group_product);
    const bool pieces = wanted.pieces, overlaps = grouped && !pieces;
    if (overlaps && depth < 3) return refuse(s, loop, "products of warp groups need 3 places");
    std::map<ir::Buffer, ir::Buffer> places;
    for (const ir::Stmt& copy : copies) {
      ir::for_each_stmt(copy, [&](const ir::Stmt& x) {
        const auto* store = x.as<ir::Store>();
        if (!store || places.count(store->buffer)) return;
        const ir::Buffer& b = store->buffer;
        const ir::Buffer several =
            ir::Buffer::make(b->name, b->dtype, {b.size() * depth}, ir::Scope::kShared);
        places[b] = places_[b] = several;
        copied_->insert(several);
      });
    }
    const auto copy_for = [&](const ir::Stmt& copy, const ir::Expr& k) {
      const ir::Expr slot = ir::floor_mod(k, ir::int_imm(depth));
      return UseSlot(places, slot)(ir::substitute(copy, loop.var, k));
    };
    const std::int64_t early = overlaps ? depth - 2 : depth - 1;  // iterations ahead
    std::vector<ir::Stmt> out, body;
    const Pieces own = pieces ? sum_apart(&uses) : Pieces{};
    // Run again, its first copies must not reach the place that others still use for the last time.
    if (repeats_ > 0 && (grouped || (*extent - 1) % depth < std::min(depth - 1, *extent)))
      out.push_back(ir::Barrier::make());
    for (std::int64_t k = 0; k < early; ++k) {
      for (const ir::Stmt& copy : copies) {
        if (k < *extent) out.push_back(copy_for(copy, ir::int_imm(k)));
      }
      out.push_back(commit());
    }
    const std::int64_t group =
        !grouped && threads_.size() == 1 ? private_group(copies, uses, places, threads_[0]) : 0;
    const ir::Expr ahead = loop.var + early;
    const auto copy_ahead = [&](const ir::Stmt& copy) {
      return ir::If::make(ir::lt(ahead, ir::int_imm(*extent)), copy_for(copy, ahead));
    };
    UseSlot now(places, ir::floor_mod(loop.var, ir::int_imm(depth)));
    for (ir::Stmt& use : uses) use = now(use);
    if (group > 0) {
      body = {wait(early - 1, group)};
    } else {
      body = {wait(early - 1), ir::Barrier::make()};
    }
    if (grouped) {
      body.insert(body.end(), uses.begin(), uses.end());
      body.push_back(copy_ahead(ir::Block::make(copies)));
      body.push_back(commit());
      if (pieces) body.push_back(wait_for_products());
    } else if (depth > 2 && can_spread(copies, uses)) {
      spread(copies, copy_ahead, *uses[0].as<ir::For>(), &body);
    } else {
      body.push_back(copy_ahead(ir::Block::make(copies)));
      body.push_back(commit());
      body.insert(body.end(), uses.begin(), uses.end());
    }
    body.insert(body.end(), own.add.begin(), own.add.end());
    out.push_back(
        ir::For::make(loop.var, loop.extent, loop.loop_kind, ir::Block::make(std::move(body))));
    if (grouped) out.push_back(wait(0));
    // What was shared before the loop relies on its barriers.
    if (group > 0 && (repeats_ > 0 || shared_)) out.push_back(ir::Barrier::make());
    shared_ = true;
    ir::Stmt all = ir::Block::make(std::move(out));
    for (const ir::Buffer& b : own.buffers) all = ir::Allocate::make(b, all);
    return all;
  }

  // Sums of one iteration, and what adds them to those of all.
  struct Pieces {
    std::vector<ir::Buffer> buffers;
    std::vector<ir::Stmt> add;
  };

  // Tensor cores cut off what they add to large sums: the products of an iteration get sums of
  // their own, which begin with 0.
  static Pieces sum_apart(std::vector<ir::Stmt>* uses) {
    Pieces out;
    std::map<ir::Buffer, ir::Buffer> own;
    std::vector<ir::Stmt> begin;
    for (const ir::Buffer& sums : sums_of(*uses)) {
      const ir::Buffer piece =
          ir::Buffer::make(sums->name + ".piece", sums->dtype, {sums.size()}, ir::Scope::kStack);
      own[sums] = piece;
      out.buffers.push_back(piece);
      for (std::int64_t i = 0; i < sums.size(); ++i) {
        const std::vector<ir::Expr> at = {ir::int_imm(i)};
        begin.push_back(ir::Store::make(piece, at, ir::imm(sums->dtype, 0)));
        out.add.push_back(
            ir::Store::make(sums, at, ir::Load::make(sums, at) + ir::Load::make(piece, at)));
      }
    }
    UseSlot instead(own, ir::int_imm(0));
    for (ir::Stmt& use : *uses) use = instead(use);
    uses->insert(uses->begin(), begin.begin(), begin.end());
    return out;
  }

  static bool can_spread(const std::vector<ir::Stmt>& copies, const std::vector<ir::Stmt>& uses) {
    const auto* loop = uses.size() == 1 ? uses[0].as<ir::For>() : nullptr;
    const auto extent = loop ? ir::as_const_int(loop->extent) : std::nullopt;
    return extent && loop->loop_kind == ir::LoopKind::kUnrolled &&
           *extent > static_cast<std::int64_t>(copies.size());
  }
  // Each copy after another iteration of the uses, a loop that will be unrolled: their reads of
  // shared memory would wait for all copies before them.
  template <class F>
  static void spread(const std::vector<ir::Stmt>& copies, const F& copy_ahead, const ir::For& uses,
                     std::vector<ir::Stmt>* body) {
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      const ir::Expr var = ir::Var::make(uses.var.as<ir::Var>()->name);
      body->push_back(ir::For::make(var, end - begin, ir::LoopKind::kUnrolled,
                                    ir::substitute(uses.body, uses.var, var + begin)));
    };
    const auto count = static_cast<std::int64_t>(copies.size());
    for (std::int64_t i = 0; i < count; ++i) {
      part(i, i + 1);
      body->push_back(copy_ahead(copies[static_cast<std::size_t>(i)]));
    }
    body->push_back(commit());
    part(count, *ir::as_const_int(uses.extent));
  }

  const LoopAttrs& attrs_;
  std::set<ir::Buffer>* copied_;
  Result<void>* result_;
  std::map<ir::Buffer, ir::Buffer> places_;  // of all loops
  int repeats_ = 0;                          // serial loops around
  std::vector<BlockThreads> threads_;        // around
  bool shared_ = false;                      // something was stored to shared memory before
};

class StartCopies final : public ir::Mutator {
 public:
  explicit StartCopies(const std::set<ir::Buffer>& copied) : copied_(copied) {}
  bool any = false;

 private:
  using ir::Mutator::rewrite;
  ir::Stmt rewrite(const ir::Stmt& s, const ir::Store& store) override {
    if (!copied_.count(store.buffer)) return s;
    // Where the edge of a tile meets that of a padded image, one choice lies in another.
    ir::Expr cond, fill, value = store.value;
    for (const auto* c = value.as<ir::Select>(); c && c->cond.lanes() == 1;
         c = value.as<ir::Select>()) {
      if (fill && !ir::equal(fill, c->on_false)) break;
      cond = cond ? ir::logical_and(cond, c->cond) : c->cond;
      fill = c->on_false;
      value = c->on_true;
    }
    const auto* load = value.as<ir::Load>();
    const int bytes = size_bytes(value.dtype()) * value.lanes();
    const bool device = load && (load->buffer->scope == ir::Scope::kParam ||
                                 load->buffer->scope == ir::Scope::kHeap);
    if (!device || !is_dense(load->indices[0]) || !is_dense(store.indices[0]) ||
        (bytes != 4 && bytes != 8 && bytes != 16)) {
      return s;
    }
    any = true;
    const ir::Expr place = ir::Load::make(store.buffer, store.indices);
    const ir::Stmt copy = ir::Evaluate::make(ir::call(ir::Intrinsic::kAsyncCopy, {place, value}));
    if (!cond) return copy;
    return ir::If::make(cond, copy, ir::Store::make(store.buffer, store.indices, fill));
  }

  static bool is_dense(const ir::Expr& index) {
    const auto* ramp = index.as<ir::Ramp>();
    return index.lanes() == 1 || (ramp && ramp->stride == 1);
  }

  const std::set<ir::Buffer>& copied_;
};

class DropGroups final : public ir::Mutator {
  using ir::Mutator::rewrite;
  ir::Stmt rewrite(const ir::Stmt& s, const ir::Evaluate& node) override {
    const auto* call = node.value.as<ir::Call>();
    const bool group =
        call && (call->fn == ir::Intrinsic::kAsyncCommit || call->fn == ir::Intrinsic::kAsyncWait ||
                 call->fn == ir::Intrinsic::kProductsWait);
    if (group && call->args.size() > 1) return ir::Barrier::make();
    return group ? ir::Stmt() : s;
  }
};

}  // namespace

ir::Stmt pipeline_loops(const ir::Stmt& s, const LoopAttrs& attrs, std::set<ir::Buffer>* copied,
                        Result<void>* result) {
  return PipelineLoops(attrs, copied, result)(s);
}

ir::Stmt start_copies(const ir::Stmt& s, const std::set<ir::Buffer>& copied) {
  if (copied.empty()) return s;
  StartCopies start(copied);
  const ir::Stmt out = start(s);
  return start.any || has_group_product(s) ? out : DropGroups()(s);  // products are waited for too
}

}  // namespace tessera::lower
