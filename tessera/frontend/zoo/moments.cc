#include "tessera/frontend/zoo/moments.h"

#include <algorithm>
#include <cmath>

namespace tessera::zoo {

Moments through(double (*f)(double), const Moments& m) {
  const double deviation = std::sqrt(m.var);
  double weight = 0, sum = 0, squares = 0;
  double low = f(std::clamp(m.mean, m.low, m.high)), high = low;
  for (int i = -40; i <= 40; ++i) {
    const double z = i / 10.0;
    const double w = std::exp(-z * z / 2);
    const double y = f(std::clamp(m.mean + deviation * z, m.low, m.high));
    weight += w;
    sum += w * y;
    squares += w * y * y;
    low = std::min(low, y);
    high = std::max(high, y);
  }
  const double mean = sum / weight;
  return {.mean = mean, .var = squares / weight - mean * mean, .low = low, .high = high};
}

Moments sum_of(const Moments& a, const Moments& b) {
  return {
      .mean = a.mean + b.mean, .var = a.var + b.var, .low = a.low + b.low, .high = a.high + b.high};
}

Moments product_of(const Moments& a, const Moments& b) {
  const double mean = a.mean * b.mean;
  return {.mean = mean, .var = a.mean_square() * b.mean_square() - mean * mean};
}

Moments scaled(const Moments& m, double factor) {
  return product_of(m, {.mean = factor, .var = 0});
}

Moments average_of(const Moments& m, double count) {
  Moments average = m;
  average.var *= 0.3 + 0.7 / std::max(1.0, count);
  return average;
}

Moments mixture(const std::vector<Value>& values) {
  double count = 0, sum = 0, squares = 0;
  Moments mixed = values[0].moments;
  for (const Value& v : values) {
    const auto n = static_cast<double>(elements(v.shape));
    count += n;
    sum += n * v.moments.mean;
    squares += n * v.moments.mean_square();
    mixed.low = std::min(mixed.low, v.moments.low);
    mixed.high = std::max(mixed.high, v.moments.high);
  }
  if (count == 0) return mixed;
  mixed.mean = sum / count;
  mixed.var = std::max(squares / count - mixed.mean * mixed.mean, 1e-12);
  return mixed;
}

}  // namespace tessera::zoo
