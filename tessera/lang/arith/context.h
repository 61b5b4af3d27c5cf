// What is known in the current scope: ranges of variables, and conditions that hold.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/arith/linear.h"

namespace tessera::arith {

class Context {
 public:
  // Keeps a reference to `base`.
  explicit Context(const Ranges& base) : base_(base) {}

  struct Mark {
    std::size_t ranges, facts, known;
  };
  Mark mark() const { return {ranges_.size(), facts_.size(), known_.size()}; }
  // Forgets everything learned since the mark.
  void restore(const Mark& mark);

  // The range replaces what was known of the variable.
  void bind(const ir::ExprNode* var, Interval range) { ranges_.emplace_back(var, range); }
  // Learns that cond is `value`. Conditions that read memory are ignored: a store may change them.
  void assume(const ir::Expr& cond, bool value);
  // Learns that sum <= 0, and narrows the ranges of its variables.
  void assume_non_positive(const Linear& sum);

  Interval range(const ir::ExprNode* var) const;
  Interval bounds(const ir::Expr& e) const;
  // `depth` bounds the number of nested min, max and select terms that are tried side by side.
  Interval bounds(const Linear& sum, int depth = 3) const;

  // True only if sum <= 0 everywhere in the scope.
  bool prove_non_positive(const Linear& sum) const;
  // The value of a condition learned as such.
  std::optional<bool> known(const ir::Expr& cond) const;

 private:
  Interval bounds_of_atom(const ir::Expr& e) const;
  Interval bounds_of_binary(const ir::Binary& b) const;
  Interval bounds_of_sum(const Linear& sum) const;
  void narrow(const Linear& sum);

  const Ranges& base_;
  std::vector<std::pair<const ir::ExprNode*, Interval>>
      ranges_;                 // the last entry of a variable counts
  std::vector<Linear> facts_;  // each <= 0
  std::vector<std::pair<ir::Expr, bool>> known_;
};

}  // namespace tessera::arith
