#include "tessera/scheduling/lower/vectorize_loops.h"

#include <algorithm>

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

// Iterations of `var` can run in lockstep: every store moves with it, no control flow depends on
// it, and the body holds no vectors yet.
class CanVectorize final : public ir::Visitor {
 public:
  explicit CanVectorize(ir::Expr var) : var_(std::move(var)) {}
  bool ok = true;

 private:
  using ir::Visitor::visit;
  void visit(const ir::Store& s) override {
    const bool local = std::find(inside_.begin(), inside_.end(), s.buffer) != inside_.end();
    if (!local && !ir::uses_var(s.indices[0], var_)) ok = false;
    if (s.value.lanes() > 1) ok = false;
    Visitor::visit(s);
  }
  void visit(const ir::If& s) override {
    if (ir::uses_var(s.cond, var_)) ok = false;
    Visitor::visit(s);
  }
  void visit(const ir::For& s) override {
    if (ir::uses_var(s.extent, var_) || s.loop_kind == ir::LoopKind::kParallel) ok = false;
    Visitor::visit(s);
  }
  void visit(const ir::Allocate& s) override {
    inside_.push_back(s.buffer);
    Visitor::visit(s);
  }
  void visit(const ir::Evaluate&) override {}
  void visit(const ir::Load& l) override {
    if (l.type.lanes > 1) ok = false;
    Visitor::visit(l);
  }
  ir::Expr var_;
  std::vector<ir::Buffer> inside_;
};

// Gives every buffer allocated inside the loop one copy per lane: element i of lane v at i * lanes
// + v.
class WidenTemporaries final : public ir::Mutator {
 public:
  WidenTemporaries(ir::Expr var, int lanes) : var_(std::move(var)), lanes_(lanes) {}

 private:
  using ir::Mutator::rewrite;
  ir::Expr index(const ir::Expr& e) { return (*this)(e)*lanes_ + var_; }
  ir::Stmt rewrite(const ir::Stmt&, const ir::Allocate& alloc) override {
    const ir::Buffer wide =
        ir::Buffer::make(alloc.buffer->name, alloc.buffer->dtype, {alloc.buffer->shape[0] * lanes_},
                         alloc.buffer->scope);
    wide_[alloc.buffer] = wide;
    return ir::Allocate::make(wide, (*this)(alloc.body));
  }
  ir::Expr rewrite(const ir::Expr& e, const ir::Load& load) override {
    const auto it = wide_.find(load.buffer);
    return it == wide_.end() ? Mutator::rewrite(e, load)
                             : ir::Load::make(it->second, {index(load.indices[0])});
  }
  ir::Stmt rewrite(const ir::Stmt& s, const ir::Store& store) override {
    const auto it = wide_.find(store.buffer);
    if (it == wide_.end()) return Mutator::rewrite(s, store);
    return ir::Store::make(it->second, {index(store.indices[0])}, (*this)(store.value));
  }
  ir::Expr var_;
  int lanes_;
  std::map<ir::Buffer, ir::Buffer> wide_;
};

// Replaces the scalar variable by 0, 1, ..., lanes-1 in one go.
class VectorizeBody final : public ir::Mutator {
 public:
  VectorizeBody(ir::Expr var, int lanes) : var_(std::move(var)), lanes_(lanes) {}

 private:
  using ir::Mutator::rewrite;

  ir::Expr widen(const ir::Expr& e) const {
    return e.lanes() == lanes_ ? e : ir::Broadcast::make(e, lanes_);
  }

  ir::Expr rewrite(const ir::Expr& e, const ir::Var&) override {
    return e.same_as(var_) ? ir::Ramp::make(ir::int_imm(0), 1, lanes_) : e;
  }
  ir::Expr rewrite(const ir::Expr& e, const ir::Binary& node) override {
    ir::Expr a = (*this)(node.a), b = (*this)(node.b);
    if (a.same_as(node.a) && b.same_as(node.b)) return e;
    return ir::Binary::make(node.op, widen(a), widen(b));
  }
  ir::Expr rewrite(const ir::Expr& e, const ir::Select& node) override {
    ir::Expr c = (*this)(node.cond), t = (*this)(node.on_true), f = (*this)(node.on_false);
    if (c.same_as(node.cond) && t.same_as(node.on_true) && f.same_as(node.on_false)) return e;
    // A condition that all lanes share stays a scalar: one branch instead of a blend.
    return ir::Select::make(c, widen(t), widen(f));
  }
  ir::Expr rewrite(const ir::Expr& e, const ir::Call& node) override {
    if (node.fn == ir::Intrinsic::kPrefetch)
      return ir::substitute(e, var_, ir::int_imm(0));  // one line for all lanes
    std::vector<ir::Expr> args;
    if (!rewrite_all(node.args, &args)) return e;
    for (ir::Expr& a : args) a = widen(a);
    if (node.fn == ir::Intrinsic::kBitcast) return ir::Call::make_bitcast(node.type.dtype, args[0]);
    return ir::Call::make(node.fn, std::move(args));
  }
  ir::Expr rewrite(const ir::Expr& e, const ir::Load& load) override {
    if (!ir::uses_var(e, var_)) return e;
    return ir::Load::make(load.buffer, {index(load.indices[0])});
  }
  ir::Stmt rewrite(const ir::Stmt& s, const ir::Store& store) override {
    if (!ir::uses_var(store.indices[0], var_)) return Mutator::rewrite(s, store);
    return ir::Store::make(store.buffer, {index(store.indices[0])}, widen((*this)(store.value)));
  }

  // A linear index becomes a Ramp (dense or strided access); anything else a vector of indices
  // (gather).
  ir::Expr index(const ir::Expr& e) {
    if (const auto form = arith::split_on(e, var_)) {
      if (form->coefficient == 0) return e;
      return ir::Ramp::make(form->rest, form->coefficient, lanes_);
    }
    return (*this)(e);
  }

  ir::Expr var_;
  int lanes_;
};

class VectorizeLoops final : public ir::Mutator {
 public:
  explicit VectorizeLoops(int vector_bytes) : vector_bytes_(vector_bytes) {}

 private:
  using ir::Mutator::rewrite;

  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    if (loop.loop_kind != ir::LoopKind::kVectorized) return Mutator::rewrite(s, loop);
    const ir::Stmt body = (*this)(loop.body);
    if (!body) return body;
    const auto extent = ir::as_const_int(loop.extent);
    TESSERA_CHECK(extent.has_value(), "vectorized loop without constant extent");
    CanVectorize can(loop.var);
    can(body);
    if (!can.ok) return ir::For::make(loop.var, *extent, ir::LoopKind::kUnrolled, body);
    std::vector<ir::Stmt> parts;
    const std::int64_t native = std::max<std::int64_t>(1, vector_bytes_ / widest_store(body));
    std::int64_t done = 0;
    while (done < *extent) {
      std::int64_t lanes = native;
      while (lanes > *extent - done) lanes /= 2;
      const ir::Expr lane = ir::Var::make(loop.var.as<ir::Var>()->name);
      parts.push_back(
          vector_part(ir::substitute(body, loop.var, lane + done), lane, static_cast<int>(lanes)));
      done += lanes;
    }
    return ir::Block::make(std::move(parts));
  }

  static ir::Stmt vector_part(const ir::Stmt& body, const ir::Expr& lane, int lanes) {
    if (lanes == 1) return ir::substitute(body, lane, ir::int_imm(0));
    const ir::Stmt wide = WidenTemporaries(lane, lanes)(body);
    return VectorizeBody(lane, lanes)(wide);
  }

  static int widest_store(const ir::Stmt& body) {
    int bytes = 1;
    ir::for_each_stmt(body, [&](const ir::Stmt& s) {
      if (const auto* store = s.as<ir::Store>())
        bytes = std::max(bytes, size_bytes(store->buffer->dtype));
    });
    return bytes;
  }

  int vector_bytes_;
};

}  // namespace

ir::Stmt vectorize_loops(const ir::Stmt& s, int vector_bytes) {
  return VectorizeLoops(vector_bytes)(s);
}

}  // namespace tessera::lower
