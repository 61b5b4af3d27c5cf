#include "tessera/app/bench/compare_outputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/frontend/graph/roundings.h"

namespace tessera::app {
namespace {

// The mean difference of two right builds of a quantised network, relative to the range: ResNet-50
// with 53 layers of bytes has 0.027. Of two unrelated outputs it is above 0.1.
constexpr double kQuantisedMean = 0.05;

bool is_quantised(const Roundings& rounded) {
  return rounded.count(DType::kI8) > 0 || rounded.count(DType::kI16) > 0;
}

double range_of(const HostTensor& want) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double v = want.get_float(i);
    if (!std::isfinite(v)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  return std::max({high - low, std::abs(high), std::abs(low), 1e-6});
}

// Infinite as range_error() is.
double mean_range_error(const HostTensor& got, const HostTensor& want) {
  if (!std::isfinite(range_error(got, want))) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double a = got.get_float(i), b = want.get_float(i);
    if (a != b && !std::isnan(b)) sum += std::abs(a - b);
  }
  return sum == 0 ? 0 : sum / static_cast<double>(want.size()) / range_of(want);
}

std::int64_t largest(const HostTensor& t, std::int64_t first, std::int64_t length) {
  std::int64_t at = first;
  for (std::int64_t i = first; i < first + length; ++i) {
    if (t.get_float(i) > t.get_float(at)) at = i;
  }
  return at;
}

}  // namespace

bool is_no_number(const HostTensor& t) {
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (!std::isnan(t.get_float(i))) return false;
  }
  return t.size() > 0;
}

double range_error(const HostTensor& got, const HostTensor& want, double none) {
  if (got.shape() != want.shape() || got.dtype() != want.dtype()) {
    return std::numeric_limits<double>::infinity();
  }
  double low = std::numeric_limits<double>::infinity(), high = -low, worst_difference = 0;
  std::int64_t numbers = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double a = got.get_float(i), b = want.get_float(i);
    if (std::isnan(a) != std::isnan(b)) return std::numeric_limits<double>::infinity();
    numbers += std::isnan(b) ? 0 : 1;
    if (std::isnan(b) || a == b || std::abs(a - b) <= none) {
      if (std::isfinite(b)) {
        low = std::min(low, b);
        high = std::max(high, b);
      }
      continue;
    }
    if (std::isinf(a) || std::isinf(b)) return std::numeric_limits<double>::infinity();
    low = std::min(low, b);
    high = std::max(high, b);
    worst_difference = std::max(worst_difference, std::abs(a - b));
  }
  if (want.size() > 0 && numbers == 0) return std::numeric_limits<double>::infinity();
  if (worst_difference == 0) return 0;
  const double range = std::max(high - low, std::max(std::abs(high), std::abs(low)));
  return worst_difference / std::max(range, 1e-6);
}

double worst_output(const graph::Graph& graph, const std::vector<HostTensor>& got,
                    const std::vector<HostTensor>& want, Products products) {
  const std::vector<Roundings> rounded = graph::roundings(graph, products);
  const std::vector<double> terms = graph::term_magnitudes(graph);
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double none = rounding_of_terms(want[i].dtype(), terms[i]);
    const double error =
        is_quantised(rounded[i])
            ? over_tolerance(mean_range_error(got[i], want[i]), kQuantisedMean)
            : over_tolerance(range_error(got[i], want[i], none), tolerance(rounded[i]));
    worst = std::max(worst, error);
  }
  return worst;
}

bool agree_but_for_no_numbers(const graph::Graph& graph, std::vector<HostTensor> got,
                              std::vector<HostTensor> want) {
  bool any = false;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!is_no_number(got[i]) || !is_no_number(want[i])) continue;
    got[i] = want[i] = HostTensor(want[i].dtype(), want[i].shape());
    any = true;
  }
  return any && worst_output(graph, got, want) <= 1;
}

std::vector<bool> quantised_outputs(const graph::Graph& graph) {
  std::vector<bool> out;
  for (const Roundings& r : graph::roundings(graph)) out.push_back(is_quantised(r));
  return out;
}

OutputAgreement agreement(const std::vector<HostTensor>& got, const std::vector<HostTensor>& want) {
  double numbers = 0, equal = 0, error = 0, rows = 0, same = 0;
  for (std::size_t o = 0; o < want.size(); ++o) {
    const HostTensor &a = got[o], &b = want[o];
    const auto n = static_cast<double>(b.size());
    if (b.size() == 0) continue;
    numbers += n;
    error += n * mean_range_error(a, b);
    if (a.shape() != b.shape()) continue;
    for (std::int64_t i = 0; i < b.size(); ++i) equal += a.get_float(i) == b.get_float(i) ? 1 : 0;
    const std::int64_t length = b.shape().empty() ? 1 : b.shape().back();
    for (std::int64_t i = 0; i < b.size(); i += length) {
      rows += 1;
      same += largest(a, i, length) == largest(b, i, length) ? 1 : 0;
    }
  }
  if (numbers == 0) return {.equal = 1, .mean_error = 0, .argmax = 1};
  return {.equal = equal / numbers,
          .mean_error = error / numbers,
          .argmax = rows > 0 ? same / rows : 0};
}

}  // namespace tessera::app
