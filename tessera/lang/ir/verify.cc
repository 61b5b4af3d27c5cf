#include "tessera/lang/ir/verify.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/typing.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::ir {
namespace {

template <class T>
bool contains(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool needs_constant_extent(LoopKind kind) {
  return kind == LoopKind::kVectorized || kind == LoopKind::kUnrolled || kind == LoopKind::kVThread;
}

bool is_thread_loop(LoopKind kind) {
  return kind >= LoopKind::kThreadX && kind <= LoopKind::kThreadZ;
}

struct Range {
  std::int64_t min, max;
};

// The values of an index when they are all known.
std::optional<Range> constant_range(const Expr& index) {
  if (const auto value = as_const_int(index)) return Range{*value, *value};
  const auto* ramp = index.as<Ramp>();
  const auto base = ramp ? as_const_int(ramp->base) : std::nullopt;
  std::int64_t span = 0;
  std::int64_t last = 0;
  if (!base || __builtin_mul_overflow(ramp->stride, index.lanes() - 1, &span) ||
      __builtin_add_overflow(*base, span, &last)) {
    return std::nullopt;
  }
  return Range{std::min(*base, last), std::max(*base, last)};
}

class Verifier final : public Visitor {
 public:
  Result<void> run(const Func& func) {
    params(func);
    if (!error_) {
      stmt(func.body, "body of the function");
    }
    return result(func.name);
  }

  Result<void> run(const Launch& l) {
    launch_ = true;
    warp_ = l.warp;
    params(l);
    for (const Buffer& b : l.shared) declare(b, Scope::kShared, "shared buffer");
    for (std::size_t d = 0; d < 3 && !error_; ++d) {
      index_var(l.block_vars[d], l.grid[d]);
      index_var(l.thread_vars[d], l.block[d]);
      thread_vars_.push_back(l.thread_vars[d]);
    }
    if (!error_) stmt(l.body, "body of the launch");
    return result(l.name);
  }

  // All but the launches.
  Result<void> run_outside(const DeviceProgram& p) {
    params(p);
    for (const Buffer& b : p.temporaries) declare(b, Scope::kHeap, "temporary");
    for (const Launch& l : p.launches) {
      const std::size_t inputs =
          l.params.size() - static_cast<std::size_t>(std::max(0, l.num_outputs));
      for (std::size_t i = 0; i < l.params.size() && !error_; ++i) {
        const Buffer& b = l.params[i];
        if (!b || !contains(buffers_, b.get())) {
          fail(fmt::format("launch {} uses {}, which the program does not have", l.name,
                           b ? b->name : "nothing"));
        } else if (i >= inputs && contains(inputs_, b.get())) {
          fail(fmt::format("launch {} writes input {}", l.name, b->name));
        }
      }
    }
    return result(p.name);
  }

 private:
  using Visitor::visit;

  Result<void> result(const std::string& name) const {
    if (!error_) return {};
    return make_error(ErrorCode::kInvalidArgument, "{}: {}", name, *error_);
  }

  template <class Unit>
  void params(const Unit& unit) {
    if (unit.num_outputs < 0 || unit.num_outputs > static_cast<int>(unit.params.size())) {
      return fail(
          fmt::format("output count {} with {} parameters", unit.num_outputs, unit.params.size()));
    }
    const std::size_t inputs = unit.params.size() - static_cast<std::size_t>(unit.num_outputs);
    for (const Buffer& b : unit.params) {
      if (!b) return fail("missing parameter");
      if (b->scope != Scope::kParam && !(launch_ && b->scope == Scope::kHeap))
        return fail(fmt::format("parameter {} does not have the param scope", b->name));
      if (contains(buffers_, b.get()))
        return fail(fmt::format("parameter {} is listed twice", b->name));
      if (buffers_.size() < inputs) inputs_.push_back(b.get());
      buffers_.push_back(b.get());
    }
  }

  void declare(const Buffer& b, Scope scope, const char* what) {
    if (!b) return fail(fmt::format("missing {}", what));
    if (b->scope != scope) return fail(fmt::format("{} {} has another scope", what, b->name));
    if (contains(buffers_, b.get()))
      return fail(fmt::format("{} {} is listed twice", what, b->name));
    buffers_.push_back(b.get());
  }

  void index_var(const Expr& var, std::int64_t extent) {
    if (!var.as<Var>() || var.type() != Type())
      return fail("index of a thread is not an i64 variable");
    if (contains(vars_, var.get())) return fail("index of a thread is bound twice");
    if (extent < 1) return fail(fmt::format("{} threads or blocks", extent));
    vars_.push_back(var.get());
  }

  // May differ between the threads of a block. Loads are taken to: what they read may.
  bool is_divergent(const Expr& e) const {
    bool out = false;
    for_each_expr(e, [&](const Expr& x) {
      out = out || x.as<Load>() ||
            std::any_of(thread_vars_.begin(), thread_vars_.end(),
                        [&](const Expr& v) { return v.same_as(x); });
    });
    return out;
  }

  // Keeps the first.
  void fail(std::string message) {
    if (!error_) error_ = std::move(message);
  }
  void fail(const std::string& rule, const ExprNode& node) {
    fail(rule + ": " + to_text(Expr(&node)));
  }
  void fail(const std::string& rule, const StmtNode& node) {
    const std::string text = to_text(Stmt(&node));
    fail(rule + ": " + text.substr(0, text.find('\n')));
  }

  void expr(const Expr& e, const ExprNode& parent) {
    if (!e) return fail("missing operand", parent);
    below(e);
  }
  void stmt(const Stmt& s, const char* what) {
    if (!s) return fail(fmt::format("missing {}", what));
    if (!error_) (*this)(s);
  }
  void below(const Expr& e) {
    if (e.lanes() < 1) return fail("type without lanes");
    if (!error_) (*this)(e);
  }

  // The node's type must be the one its operands imply.
  void check_type(const Typing& t, const ExprNode& node) {
    if (t.error) return fail(t.error, node);
    if (t.type != node.type) {
      fail(fmt::format("type mismatch, {} instead of {}", to_text(node.type), to_text(t.type)),
           node);
    }
  }

  void visit(const IntImm& n) override {
    if (n.type.lanes != 1) return fail("vector constant is not a broadcast", n);
    if (is_float(n.type.dtype) || wrap_int(n.type.dtype, n.value) != n.value)
      fail("constant does not fit its type", n);
  }

  void visit(const FloatImm& n) override {
    if (n.type.lanes != 1) return fail("vector constant is not a broadcast", n);
    const bool fits = std::isnan(n.value) || round_float(n.type.dtype, n.value) == n.value;
    if (!is_float(n.type.dtype) || !fits) fail("constant does not fit its type", n);
  }

  void visit(const Var& n) override {
    if (n.type.lanes != 1) return fail("variable is a vector", n);
    if (!contains<const ExprNode*>(vars_, &n)) fail("unbound variable", n);
  }

  void visit(const Binary& n) override {
    expr(n.a, n), expr(n.b, n);
    if (!error_) check_type(binary_typing(n.op, n.a.type(), n.b.type()), n);
  }

  void visit(const Select& n) override {
    expr(n.cond, n);
    ++guards_;
    expr(n.on_true, n), expr(n.on_false, n);
    --guards_;
    if (!error_) check_type(select_typing(n.cond.type(), n.on_true.type(), n.on_false.type()), n);
  }

  void visit(const Cast& n) override {
    expr(n.value, n);
    if (!error_) check_type({n.value.type().with_dtype(n.type.dtype)}, n);
  }

  void visit(const Load& n) override {
    for (const Expr& index : n.indices) expr(index, n);
    if (error_) return;
    const Typing t = access_typing(n.buffer, n.indices);
    check_type(t, n);
    if (!error_) check_access(n.buffer, n.indices, n);
  }

  void visit(const Ramp& n) override {
    expr(n.base, n);
    if (!error_) check_type(ramp_typing(n.base.type(), n.type.lanes), n);
  }

  void visit(const Broadcast& n) override {
    expr(n.value, n);
    if (!error_) check_type(broadcast_typing(n.value.type(), n.type.lanes), n);
  }

  void visit(const Shuffle& n) override {
    expr(n.value, n);
    if (!error_) check_type(shuffle_typing(n.value.type(), n.picks), n);
  }

  void visit(const Call& n) override {
    if (n.fn >= Intrinsic::kShuffleXor && thread_vars_.empty())
      return fail("intrinsic of threads outside a launch", n);
    const bool prefetch = n.fn == Intrinsic::kPrefetch;  // never faults
    guards_ += prefetch;
    for (const Expr& arg : n.args) expr(arg, n);
    guards_ -= prefetch;
    if (error_) return;
    if (warp_ > 0 && n.fn == Intrinsic::kShuffleXor && as_const_int(n.args[1]) >= warp_)
      return fail(fmt::format("exchange beyond a warp of {} threads", warp_), n);
    if (warp_ > 0 && n.fn == Intrinsic::kAsyncWait && n.args.size() > 1 &&
        as_const_int(n.args[1]).value_or(0) % warp_ != 0)
      return fail(fmt::format("wait of threads that are not whole warps of {}", warp_), n);
    if (n.fn == Intrinsic::kAsyncCopy && !is_shared_copy(n))
      return fail("asynchronous copy is not from device to shared memory", n);
    if (n.fn != Intrinsic::kBitcast) return check_type(call_typing(n.fn, n.args), n);
    if (n.args.size() != 1) return fail("wrong number of arguments", n);
    check_type(bitcast_typing(n.type.dtype, n.args[0].type()), n);
  }

  static bool is_shared_copy(const Call& n) {
    const auto* place = n.args[0].as<Load>();
    const auto* source = n.args[1].as<Load>();
    return place && source && place->buffer->scope == Scope::kShared &&
           source->buffer->scope != Scope::kShared && source->buffer->scope != Scope::kStack;
  }

  // Rules of a load or a store that typing does not cover.
  template <class Node>
  void check_access(const Buffer& b, const std::vector<Expr>& indices, const Node& node) {
    if (!contains(buffers_, b.get()))
      return fail(fmt::format("buffer {} is not in scope", b->name), node);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i].lanes() > 1 && i + 1 < indices.size())
        return fail("vector index is not the last", node);
      const auto range = guards_ == 0 ? constant_range(indices[i]) : std::nullopt;
      if (range && (range->min < 0 || range->max >= b->shape[i])) {
        return fail(fmt::format("index out of bounds in dimension {} of {}", i, b->shape[i]), node);
      }
    }
  }

  void visit(const For& n) override {
    if (!n.var.as<Var>() || n.var.type() != Type())
      return fail("loop variable is not an i64 variable");
    if (!n.extent || n.extent.type() != Type()) return fail("loop extent is not a scalar i64");
    below(n.extent);
    const auto extent = as_const_int(n.extent);
    if (extent && *extent < 0) return fail("negative loop extent", n);
    if (!extent && needs_constant_extent(n.loop_kind))
      return fail("loop extent is not constant", n);
    if (n.loop_kind == LoopKind::kParallel && vectorized_ > 0)
      return fail("parallel loop in a vectorized loop", n);
    if (launch_ && n.loop_kind != LoopKind::kSerial && n.loop_kind != LoopKind::kUnrolled)
      return fail("loop in a launch is neither serial nor unrolled", n);
    if (contains(vars_, n.var.get())) return fail("variable is bound twice", n);
    const bool divergent = is_divergent(n.extent);
    divergent_ += divergent;
    const bool may_be_empty = !extent || *extent == 0;
    vars_.push_back(n.var.get());
    if (is_thread_loop(n.loop_kind)) thread_vars_.push_back(n.var);
    vectorized_ += n.loop_kind == LoopKind::kVectorized;
    guards_ += may_be_empty;
    stmt(n.body, "body of a loop");
    guards_ -= may_be_empty;
    vectorized_ -= n.loop_kind == LoopKind::kVectorized;
    divergent_ -= divergent;
    if (is_thread_loop(n.loop_kind)) thread_vars_.pop_back();
    vars_.pop_back();
  }

  void visit(const Store& n) override {
    for (const Expr& e : n.indices) {
      if (!e) return fail("missing index of a store");
      below(e);
    }
    if (!n.value) return fail("missing value of a store");
    below(n.value);
    if (error_) return;
    const Typing t = access_typing(n.buffer, n.indices);
    if (t.error) return fail(t.error, n);
    if (n.value.type() != t.type) {
      return fail(fmt::format("store of {} to {}", to_text(n.value.type()), to_text(t.type)), n);
    }
    if (contains(inputs_, n.buffer.get())) return fail("store to an input", n);
    check_access(n.buffer, n.indices, n);
  }

  void visit(const Block& n) override {
    for (const Stmt& s : n.stmts) stmt(s, "statement of a block");
  }

  void visit(const If& n) override {
    if (!n.cond || n.cond.type() != Type{DType::kBool, 1})
      return fail("condition is not a scalar bool");
    below(n.cond);
    const bool divergent = is_divergent(n.cond);
    divergent_ += divergent;
    ++guards_;
    stmt(n.then_body, "body of an if");
    if (n.else_body) stmt(n.else_body, "body of an else");
    --guards_;
    divergent_ -= divergent;
  }

  void visit(const Allocate& n) override {
    if (!n.buffer) return fail("missing buffer of an allocation");
    if (n.buffer->scope == Scope::kParam) return fail("allocation in the param scope", n);
    if (launch_ && n.buffer->scope != Scope::kStack)
      return fail("allocation in a launch is not on the stack", n);
    if (contains(buffers_, n.buffer.get())) return fail("buffer is allocated twice", n);
    buffers_.push_back(n.buffer.get());
    stmt(n.body, "body of an allocation");
    buffers_.pop_back();
  }

  void visit(const Evaluate& n) override {
    if (!n.value) return fail("missing value of an eval");
    const auto* call = n.value.as<Call>();
    if (call && call->fn == Intrinsic::kAsyncWait && call->args.size() > 1 && divergent_ > 0)
      return fail("threads wait for each other where they diverge");
    below(n.value);
  }

  void visit(const Barrier&) override {
    if (thread_vars_.empty()) return fail("barrier outside a launch");
    if (divergent_ > 0) fail("barrier where threads diverge");
  }

  std::optional<std::string> error_;
  bool launch_ = false;
  std::int64_t warp_ = 0;              // of the launch; 0: not known yet
  std::vector<Expr> thread_vars_;      // of the launch, or of thread loops around
  int divergent_ = 0;                  // branches and loops around that may differ between threads
  std::vector<const ExprNode*> vars_;  // bound on the path to here
  std::vector<const BufferNode*> buffers_;  // parameters, then allocations on the path to here
  std::vector<const BufferNode*> inputs_;
  int vectorized_ = 0;  // vectorized loops around
  int guards_ = 0;      // constructs around that may keep this code from running
};

}  // namespace

Result<void> verify(const Func& func) { return Verifier().run(func); }

Result<void> verify(const DeviceProgram& program) {
  TESSERA_DO(Verifier().run_outside(program));
  for (const Launch& l : program.launches) TESSERA_DO(Verifier().run(l));
  return {};
}

}  // namespace tessera::ir
