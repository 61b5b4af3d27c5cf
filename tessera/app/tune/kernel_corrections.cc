#include "tessera/app/tune/kernel_corrections.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace tessera::app {
namespace {

// Deviations of the factor of a kernel, of the factor that all share, and of a measured share.
constexpr double kOwn = 0.3, kShared = 0.3, kNoise = 0.005;

}  // namespace

KernelCorrections::Change KernelCorrections::change(const PlanTasks& rules,
                                                    const PlanTasks& plan) const {
  Change out;
  double whole = 0;
  for (const auto& [key, count] : rules) whole += count * costs_.seconds_of(key);
  const auto add = [&](const std::string& key, int count) {
    const double seconds = costs_.seconds_of(key);
    if (!(seconds > 0) || !(whole > 0)) {
      out.known = false;
      return;
    }
    out.effects.emplace_back(key, count * seconds / whole);
    out.sum += out.effects.back().second;
  };
  auto was = rules.begin();
  for (const auto& [key, count] : plan) {
    for (; was != rules.end() && was->first < key; ++was) add(was->first, -was->second);
    const int before = was != rules.end() && was->first == key ? (was++)->second : 0;
    if (count != before) add(key, count - before);
  }
  for (; was != rules.end(); ++was) add(was->first, -was->second);
  return out;
}

double KernelCorrections::covariance(const Change& a, const Change& b) {
  double own = 0;
  auto y = b.effects.begin();
  for (const auto& [key, effect] : a.effects) {
    while (y != b.effects.end() && y->first < key) ++y;
    if (y != b.effects.end() && y->first == key) own += effect * y->second;
  }
  return kOwn * kOwn * own + kShared * kShared * a.sum * b.sum;
}

std::vector<double> KernelCorrections::solve(std::vector<double> right) const {
  for (std::size_t i = 0; i < right.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) right[i] -= factor_[i][j] * right[j];
    right[i] /= factor_[i][i];
  }
  return right;
}

void KernelCorrections::observe(const PlanTasks& rules, const PlanTasks& plan, double share,
                                std::optional<double> expected) {
  Change c = change(rules, plan);
  if (!c.known || !std::isfinite(share) || c.effects.empty()) return;
  // One more row of the Cholesky factor.
  std::vector<double> row;
  row.reserve(seen_.size() + 1);
  for (const Change& s : seen_) row.push_back(covariance(c, s));
  row = solve(std::move(row));
  const double rest = covariance(c, c) + kNoise * kNoise -
                      std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
  row.push_back(std::sqrt(std::max(rest, kNoise * kNoise / 4)));
  factor_.push_back(std::move(row));
  surprises_.push_back(share - expected.value_or(1 + c.sum));
  seen_.push_back(std::move(c));
  solved_ = solve(surprises_);
}

KernelCorrections::Belief KernelCorrections::believe(const PlanTasks& rules, const PlanTasks& plan,
                                                     std::optional<double> expected) const {
  const Change c = change(rules, plan);
  if (!c.known) return {std::numeric_limits<double>::infinity(), 0};
  std::vector<double> row;
  row.reserve(seen_.size());
  for (const Change& s : seen_) row.push_back(covariance(c, s));
  row = solve(std::move(row));
  const double known = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
  const double learnt = std::inner_product(row.begin(), row.end(), solved_.begin(), 0.0);
  return {expected.value_or(1 + c.sum) + learnt,
          std::sqrt(std::max(0.0, covariance(c, c) - known))};
}

}  // namespace tessera::app
