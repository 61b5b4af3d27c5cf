// Short convolutions by Toom-Cook: the matrices, and their rows as expressions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/lang/ir/expr.h"

namespace tessera::te {

using Matrix = std::vector<std::vector<double>>;

// Results y[i] = sum of w[k] d[i + k] over the taps k, for 0 <= i < m, are at [(g w) * (bt d)],
// with a product for each of the points and for infinity, the last of m + taps - 1. Entries of at
// and bt are dyadic, so they are exact. Of one tap, m is 1 and all matrices are 1.
struct ToomCook {
  std::vector<double> points;  // one for each column of at; infinity is the last
  Matrix at;                   // m x products
  Matrix g;                    // products x taps
  Matrix bt;                   // products x products

  std::int64_t products() const { return static_cast<std::int64_t>(points.size()); }
};
inline constexpr std::int64_t kMostProducts = 12;  // that make_toom_cook has points for

ToomCook make_toom_cook(std::int64_t outputs, std::int64_t window);  // m, taps

using Terms = std::function<ir::Expr(std::size_t)>;

// The sum of row[k] * term(k) where rows of opposite points differ in the sign of their odd terms,
// as in bt: two sums serve both.
ir::Expr even_and_odd(const std::vector<double>& row, const Terms& term);

// ... where columns of opposite points, one after the other, differ in sign at most, as in at:
// their sum and their difference serve all rows.
ir::Expr sums_and_differences(const std::vector<double>& points, const std::vector<double>& row,
                              const Terms& term);

// combine(row) of row `selector` of the matrix, as select(selector == 0, .., select(selector == 1,
// ..)).
ir::Expr select_row(const Matrix& matrix, const ir::Expr& selector,
                    const std::function<ir::Expr(const std::vector<double>&)>& combine);

}  // namespace tessera::te
