#include "tessera/learn/graphset/summed_times.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/learn/graphset/ranking.h"

namespace tessera::graphset {
namespace {

// The work grows with their cube.
constexpr std::size_t kMostUnknowns = 1000;
// Groups of a half for each unknown, at least.
constexpr std::size_t kFewestGroups = 8;
constexpr double kRidge = 1e-6;  // columns of a place often say the same

// The lower factor of a symmetric matrix that is made of full rows.
class Cholesky {
 public:
  explicit Cholesky(std::vector<double> matrix, std::size_t n) : n_(n), f_(std::move(matrix)) {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double rest = f_[i * n_ + j];
        for (std::size_t k = 0; k < j; ++k) rest -= f_[i * n_ + k] * f_[j * n_ + k];
        f_[i * n_ + j] = i == j ? std::sqrt(std::max(rest, kRidge)) : rest / f_[j * n_ + j];
      }
    }
  }
  std::vector<double> solve(std::vector<double> right) const {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t k = 0; k < i; ++k) right[i] -= f_[i * n_ + k] * right[k];
      right[i] /= f_[i * n_ + i];
    }
    for (std::size_t i = n_; i-- > 0;) {
      for (std::size_t k = i + 1; k < n_; ++k) right[i] -= f_[k * n_ + i] * right[k];
      right[i] /= f_[i * n_ + i];
    }
    return right;
  }

 private:
  std::size_t n_;
  std::vector<double> f_;
};

// Numbers of the values that configurations have, by position among their columns; 0 is what all
// share. A column with one value has none.
class Values {
 public:
  Values(const ConfigGraph& graph, const std::vector<std::vector<std::int64_t>>& groups)
      : graph_(graph), numbers_(static_cast<std::size_t>(graph.places() * graph.config_columns())) {
    for (const auto& group : groups) {
      const float* config = graph.config(group.front());
      for (std::size_t c = 0; c < numbers_.size(); ++c) numbers_[c].try_emplace(config[c], 0);
    }
    for (auto& column : numbers_) {
      if (column.size() < 2) continue;
      for (auto& [value, number] : column) number = count_++;
    }
  }
  std::size_t count() const { return count_; }
  std::vector<std::size_t> of(std::int64_t config) const {
    std::vector<std::size_t> out = {0};
    for (std::size_t c = 0; c < numbers_.size(); ++c) {
      const std::size_t number = numbers_[c].at(graph_.config(config)[c]);
      if (number > 0) out.push_back(number);
    }
    return out;
  }

 private:
  const ConfigGraph& graph_;
  std::vector<std::map<float, std::size_t>> numbers_;
  std::size_t count_ = 1;
};

struct Row {
  std::vector<std::size_t> values;
  double mean = 0, measured = 0;  // times
  bool half = false;
};

std::vector<double> fit(const std::vector<Row>& rows, bool half, std::size_t unknowns) {
  std::vector<double> products(unknowns * unknowns, 0), right(unknowns, 0);
  for (const Row& row : rows) {
    if (row.half != half || row.mean <= 0) continue;
    const double weight = row.measured / (row.mean * row.mean);
    for (const std::size_t i : row.values) {
      right[i] += weight * row.mean;
      for (const std::size_t j : row.values) products[i * unknowns + j] += weight;
    }
  }
  double largest = 0;
  for (std::size_t i = 0; i < unknowns; ++i)
    largest = std::max(largest, products[i * unknowns + i]);
  for (std::size_t i = 0; i < unknowns; ++i) products[i * unknowns + i] += kRidge * largest;
  return Cholesky(std::move(products), unknowns).solve(std::move(right));
}

}  // namespace

std::vector<double> summed_times(const ConfigGraph& graph,
                                 const std::vector<std::vector<std::int64_t>>& groups) {
  const Values values(graph, groups);
  if (values.count() > kMostUnknowns || groups.size() < 2 * kFewestGroups * values.count())
    return {};
  std::vector<Row> rows;
  rows.reserve(groups.size());
  double scale = 0;
  for (const auto& group : groups) {
    Row& row = rows.emplace_back(Row{.values = values.of(group.front())});
    for (const std::int64_t i : group) row.mean += graph.cost(i);
    row.measured = static_cast<double>(group.size());
    row.mean /= row.measured;
    row.half = is_learned(graph, group.front(), 0.5);
    scale = std::max(scale, row.mean);
  }
  if (scale <= 0) return {};
  for (Row& row : rows) row.mean /= scale;
  const std::vector<double> by_first = fit(rows, true, values.count());
  const std::vector<double> by_second = fit(rows, false, values.count());
  std::vector<double> out;
  out.reserve(rows.size());
  for (const Row& row : rows) {
    double sum = 0;
    for (const std::size_t i : row.values) sum += (row.half ? by_second : by_first)[i];
    out.push_back(scale * sum);
  }
  return out;
}

}  // namespace tessera::graphset
