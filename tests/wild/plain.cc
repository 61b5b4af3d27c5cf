#include "tests/wild/plain.h"

#include <algorithm>
#include <cmath>

namespace tessera::wild {

Array make(const Shape& shape, const std::function<double(std::int64_t)>& element) {
  Array a{shape, {}};
  for (std::int64_t i = 0; i < elements(shape); ++i) a.data.push_back(element(i));
  return a;
}

Array random(const Shape& shape, Rng& rng) {
  const HostTensor t = random_tensor(DType::kF32, shape, rng);
  return make(shape, [&](std::int64_t i) { return t.get_float(i); });
}

Array reshape(Array a, const Shape& shape) {
  a.shape = shape;
  return a;
}

HostTensor to_tensor(const Array& a, DType dtype) {
  HostTensor t(dtype, a.shape);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (is_float(dtype)) {
      t.set_float(i, a[i]);
    } else {
      t.set_int(i, static_cast<std::int64_t>(a[i]));
    }
  }
  return t;
}

Array map(const Array& a, const std::function<double(double)>& f) {
  return make(a.shape, [&](std::int64_t i) { return f(a[i]); });
}

Array add(const Array& a, const Array& b) {
  const auto n = static_cast<std::int64_t>(b.data.size());
  return make(a.shape, [&](std::int64_t i) { return a[i] + b[i % n]; });
}

Array mul(const Array& a, const Array& b) {
  const auto n = static_cast<std::int64_t>(b.data.size());
  return make(a.shape, [&](std::int64_t i) { return a[i] * b[i % n]; });
}

double relu(double x) { return std::max(0.0, x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Array matmul(const Array& a, const Array& b) {
  const std::int64_t k = a.dim(1), n = b.dim(1);
  return make({a.dim(0), n}, [&](std::int64_t at) {
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i) sum += a[at / n * k + i] * b[i * n + at % n];
    return sum;
  });
}

Array transpose(const Array& a) {
  const std::int64_t m = a.dim(0), n = a.dim(1);
  return make({n, m}, [&](std::int64_t at) { return a[at % m * n + at / m]; });
}

Array softmax(const Array& a) {
  const std::int64_t n = a.shape.back();
  return make(a.shape, [&](std::int64_t at) {
    const std::int64_t first = at / n * n;
    const double top = a[first + argmax(a, first, n)];
    double sum = 0;
    for (std::int64_t i = first; i < first + n; ++i) sum += std::exp(a[i] - top);
    return std::exp(a[at] - top) / sum;
  });
}

std::int64_t argmax(const Array& a, std::int64_t first, std::int64_t count) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < count; ++i) {
    if (a[first + i] > a[first + best]) best = i;
  }
  return best;
}

Array conv2d(const Array& x, const Array& w, std::int64_t stride, std::int64_t pad) {
  const std::int64_t c = x.dim(1), h = x.dim(2), wide = x.dim(3), k = w.dim(2);
  const std::int64_t oh = (h + 2 * pad - k) / stride + 1, ow = (wide + 2 * pad - k) / stride + 1;
  return make({1, w.dim(0), oh, ow}, [&](std::int64_t at) {
    const std::int64_t j = at % ow, i = at / ow % oh, m = at / (ow * oh);
    double sum = 0;
    for (std::int64_t ch = 0; ch < c; ++ch) {
      for (std::int64_t tap = 0; tap < k * k; ++tap) {
        const std::int64_t row = i * stride - pad + tap / k, column = j * stride - pad + tap % k;
        if (row < 0 || row >= h || column < 0 || column >= wide) continue;
        sum += x[(ch * h + row) * wide + column] * w[(m * c + ch) * k * k + tap];
      }
    }
    return sum;
  });
}

double bilinear(const Array& a, std::int64_t first, std::int64_t h, std::int64_t w, double y,
                double x) {
  const auto row = static_cast<std::int64_t>(std::floor(y));
  const auto column = static_cast<std::int64_t>(std::floor(x));
  double sum = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 2; ++j) {
      const double wy = 1 - std::abs(y - static_cast<double>(row + i));
      const double wx = 1 - std::abs(x - static_cast<double>(column + j));
      const std::int64_t r = std::clamp<std::int64_t>(row + i, 0, h - 1);
      const std::int64_t c = std::clamp<std::int64_t>(column + j, 0, w - 1);
      sum += wy * wx * a[first + r * w + c];
    }
  }
  return sum;
}

}  // namespace tessera::wild
