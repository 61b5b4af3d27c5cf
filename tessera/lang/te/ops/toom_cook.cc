#include "tessera/lang/te/ops/toom_cook.h"

#include <algorithm>
#include <array>
#include <limits>

#include "tessera/lang/ir/build.h"
#include "tessera/support/check.h"

namespace tessera::te {
namespace {

// Opposite ones side by side. Of the sets that were tried, this one rounds least from the eighth
// on: four results of seven taps round as much as 4 x 4 of 3 x 3.
constexpr std::array<double, kMostProducts - 1> kPoints = {0,    1,    -1,    2,   -2,  0.5,
                                                           -0.5, 0.75, -0.75, 1.5, -1.5};

// Coefficients, lowest power first, of prod (x - p) over the points except number `skip`.
std::vector<double> root_polynomial(const std::vector<double>& points, std::size_t skip) {
  std::vector<double> poly = {1};
  for (std::size_t l = 0; l < points.size(); ++l) {
    if (l == skip) continue;
    poly.insert(poly.begin(), 0);
    for (std::size_t k = 0; k + 1 < poly.size(); ++k) poly[k] -= points[l] * poly[k + 1];
  }
  return poly;
}

struct Term {
  double coefficient;
  ir::Expr value;
};

// Their sum, without products by 0, 1 and -1. Starts with a term that needs no product where there
// is one, or else with a positive one: every other term is then one fused operation.
ir::Expr sum_of(std::vector<Term> terms) {
  std::erase_if(terms, [](const Term& t) { return t.coefficient == 0; });
  TESSERA_CHECK(!terms.empty(), "toom-cook: a row of a transform is zero");
  const auto rank = [](const Term& t) {
    return t.coefficient == 1 ? 0 : t.coefficient > 0 ? 1 : 2;
  };
  const auto first = std::min_element(
      terms.begin(), terms.end(), [&](const Term& a, const Term& b) { return rank(a) < rank(b); });
  std::rotate(terms.begin(), first, first + 1);
  const auto product = [](double coefficient, const ir::Expr& value) {
    return coefficient == 1 ? value : ir::imm(value.dtype(), coefficient) * value;
  };
  ir::Expr sum = product(terms[0].coefficient, terms[0].value);
  for (std::size_t i = 1; i < terms.size(); ++i) {
    const auto& [coefficient, value] = terms[i];
    sum = coefficient > 0 ? sum + product(coefficient, value) : sum - product(-coefficient, value);
  }
  return sum;
}

}  // namespace

ToomCook make_toom_cook(std::int64_t outputs, std::int64_t window) {
  const auto m = static_cast<std::size_t>(outputs), taps = static_cast<std::size_t>(window);
  const std::size_t alpha = m + taps - 1;
  TESSERA_CHECK(alpha - 1 <= kPoints.size(), "toom-cook: {} products", alpha);
  std::vector<double> points(kPoints.begin(), kPoints.begin() + static_cast<long>(alpha) - 1);
  ToomCook t{.points = {},
             .at = Matrix(m, std::vector<double>(alpha)),
             .g = Matrix(alpha, std::vector<double>(taps)),
             .bt = Matrix(alpha, std::vector<double>(alpha))};
  for (std::size_t j = 0; j + 1 < alpha; ++j) {
    double norm = 1;
    for (std::size_t l = 0; l + 1 < alpha; ++l) norm *= l == j ? 1 : points[j] - points[l];
    // Point 0: a positive norm makes the row start with a positive coefficient.
    const double sign = j == 0 && norm < 0 ? -1 : 1;
    const std::vector<double> row = root_polynomial(points, j);
    for (std::size_t k = 0; k < row.size(); ++k) t.bt[j][k] = sign * row[k];
    double power = 1;
    for (std::size_t k = 0; k < std::max(m, taps); ++k, power *= points[j]) {
      if (k < m) t.at[k][j] = power;
      if (k < taps) t.g[j][k] = sign * power / norm;
    }
  }
  t.bt[alpha - 1] = root_polynomial(points, points.size());
  t.g[alpha - 1][taps - 1] = 1;
  t.at[m - 1][alpha - 1] = 1;
  t.points = std::move(points);
  t.points.push_back(std::numeric_limits<double>::infinity());
  return t;
}

ir::Expr even_and_odd(const std::vector<double>& row, const Terms& term) {
  std::array<std::vector<Term>, 2> parts;
  for (std::size_t k = row.size(); k-- > 0;) {
    if (row[k] != 0) parts[k % 2].push_back({row[k], term(k)});
  }
  if (parts[0].empty() || parts[1].empty())
    return sum_of(std::move(parts[parts[0].empty() ? 1 : 0]));
  // Both without a sign or factor that only one of the two rows has. Without an opposite point the
  // quotients may round, and there is nothing to share.
  const auto divides = [](const std::vector<Term>& part) {
    return std::all_of(part.begin(), part.end(), [&](const Term& t) {
      const double quotient = t.coefficient / part[0].coefficient;
      return quotient * part[0].coefficient == t.coefficient &&
             static_cast<double>(static_cast<float>(quotient)) == quotient;
    });
  };
  if (!divides(parts[0]) || !divides(parts[1])) {
    parts[0].insert(parts[0].end(), parts[1].begin(), parts[1].end());
    return sum_of(std::move(parts[0]));
  }
  std::vector<Term> sums;
  for (std::vector<Term>& part : parts) {
    const double scale = part[0].coefficient;
    for (Term& t : part) t.coefficient /= scale;
    sums.push_back({scale, sum_of(std::move(part))});
  }
  const auto& [scale, odd] = sums[1];
  if (sums[0].coefficient != 1 || scale == 1 || scale == -1) return sum_of(std::move(sums));
  // Written as a product and an addition, which become one instruction.
  return sums[0].value + ir::imm(odd.dtype(), scale) * odd;
}

ir::Expr sums_and_differences(const std::vector<double>& points, const std::vector<double>& row,
                              const Terms& term) {
  std::vector<Term> sums;
  for (std::size_t k = 0; k < row.size(); ++k) {
    if (row[k] == 0) continue;
    const bool paired =
        k + 1 < row.size() && row[k + 1] != 0 && points[k] != 0 && points[k] == -points[k + 1];
    if (paired) {
      sums.push_back({row[k], sum_of({{1, term(k)}, {row[k + 1] / row[k], term(k + 1)}})});
      ++k;
    } else {
      sums.push_back({row[k], term(k)});
    }
  }
  return sum_of(std::move(sums));
}

ir::Expr select_row(const Matrix& matrix, const ir::Expr& selector,
                    const std::function<ir::Expr(const std::vector<double>&)>& combine) {
  ir::Expr chain = combine(matrix.back());
  for (std::size_t r = matrix.size() - 1; r-- > 0;) {
    const ir::Expr here = ir::eq(selector, ir::int_imm(static_cast<std::int64_t>(r)));
    chain = ir::select(here, combine(matrix[r]), chain);
  }
  return chain;
}

}  // namespace tessera::te
