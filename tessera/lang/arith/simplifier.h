// The rewriting of expressions, shared by simplify(), the statement walk and symbolic_bounds().
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/lang/arith/context.h"
#include "tessera/lang/arith/linear.h"
#include "tessera/lang/ir/expr.h"

namespace tessera::arith {

bool reads_memory(const ir::Expr& e);

class Simplifier {
 public:
  // Keeps a reference to `ranges`.
  explicit Simplifier(const Ranges& ranges) : context_(ranges) {}

  // The simplest form found; the same handle when nothing changed.
  ir::Expr operator()(const ir::Expr& e);

  // The context may be read freely; a Scope is needed to change it.
  const Context& context() const { return context_; }

  // What is learned through a Scope is forgotten when it ends.
  class Scope {
   public:
    explicit Scope(Simplifier* owner) : owner_(owner), mark_(owner->context_.mark()) {
      owner_->memo_.clear();
    }
    ~Scope() {
      owner_->context_.restore(mark_);
      owner_->memo_.clear();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void assume(const ir::Expr& cond, bool value) { owner_->context_.assume(cond, value); }
    void assume_non_positive(const Linear& sum) { owner_->context_.assume_non_positive(sum); }
    void bind(const ir::Expr& var, Interval range) { owner_->context_.bind(var.get(), range); }

   private:
    Simplifier* owner_;
    Context::Mark mark_;
  };

  // Quotient and remainder of a simplified sum by n > 0, simplified.
  Linear divide(const Linear& sum, std::int64_t n) const;
  Linear modulo(const Linear& sum, std::int64_t n) const;

 private:
  ir::Expr visit(const ir::Expr& e);
  ir::Expr visit_node(const ir::Expr& e);
  ir::Expr visit_var(const ir::Expr& e) const;
  ir::Expr visit_binary(const ir::Expr& e, const ir::Binary& b);
  ir::Expr visit_select(const ir::Expr& e, const ir::Select& s);
  ir::Expr visit_cast(const ir::Expr& e, const ir::Cast& c);
  ir::Expr visit_load(const ir::Expr& e, const ir::Load& load);
  ir::Expr visit_call(const ir::Expr& e, const ir::Call& call);
  bool visit_all(const std::vector<ir::Expr>& in, std::vector<ir::Expr>* out);

  // Scalar i64 operands.
  ir::Expr visit_index(const ir::Expr& e, const ir::Binary& b);
  ir::Expr visit_sum(const ir::Expr& e);
  ir::Expr visit_division(const ir::Expr& e, const ir::Binary& b);
  ir::Expr visit_extremum(const ir::Expr& e, const ir::Binary& b);
  ir::Expr visit_comparison(const ir::Expr& e, const ir::Binary& b);
  // Any other type: only rules that hold for all values.
  ir::Expr visit_generic(const ir::Expr& e, const ir::Binary& b);
  ir::Expr compare_by_bounds(const ir::Expr& e, ir::BinaryOp op, const ir::Expr& a,
                             const ir::Expr& b) const;

  // Vectors.
  ir::Expr visit_vector(const ir::Expr& e, const ir::Binary& b);
  ir::Expr visit_ramp(const ir::Expr& e, const ir::Ramp& ramp);
  ir::Expr combine_ramps(ir::BinaryOp op, const ir::Expr& a, const ir::Expr& b);
  ir::Expr divide_ramp(ir::BinaryOp op, const ir::Ramp& ramp, std::int64_t divisor);
  ir::Expr compare_ramps(ir::BinaryOp op, const ir::Expr& a, const ir::Expr& b);

  // Conjunctions (kAnd) and disjunctions (kOr) of scalar bools.
  ir::Expr visit_junction(const ir::Expr& e, const ir::Binary& b);
  void drop_implied(bool conjunction, std::vector<ir::Expr>* parts);
  ir::Expr visit_not(const ir::Expr& e, const ir::Call& call);

  // Whether an atom is data: an i64 of any size that was read from memory. Sums of data may wrap,
  // so they are neither moved across a comparison nor divided term by term.
  bool may_wrap(const Linear& sum) const;

  // out += scale * e with every atom simplified.
  void linearize(const ir::Expr& e, std::int64_t scale, Linear* out);
  // Joins terms of quotients and remainders of the same value; true when it changed the sum.
  bool join_quotients(Linear* sum) const;
  bool join_pair(std::size_t i, std::size_t j, Linear* sum) const;
  bool join_with_value(std::size_t i, Linear* sum) const;

  std::optional<bool> decide_less(const Linear& gap) const;
  std::optional<bool> decide_equal(const Linear& gap) const;

  Context context_;
  std::unordered_map<const ir::ExprNode*, std::pair<ir::Expr, ir::Expr>>
      memo_;  // shared nodes only
};

// sum = factor * scaled + remainder with remainder in [0, factor) in the context.
struct Factored {
  std::int64_t factor = 1;
  Linear scaled;
  Linear remainder;
};
// The largest such factor > 1 among the divisors of n that the coefficients offer (any when n is
// 0).
std::optional<Factored> factor_out(const Linear& sum, std::int64_t n, const Context& context);

// The operation on two scalar constants, or null when an operand is not constant.
ir::Expr fold_constants(ir::BinaryOp op, const ir::Expr& a, const ir::Expr& b);

// `rebuilt`, or `e` when both are structurally equal.
inline ir::Expr keep_handle(const ir::Expr& e, const ir::Expr& rebuilt) {
  return ir::equal(e, rebuilt) ? e : rebuilt;
}

}  // namespace tessera::arith
