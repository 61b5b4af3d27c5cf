// Arithmetic on small arrays by plain loops: what models must compute, written without Tessera's
// operators.
#pragma once

#include <functional>
#include <vector>

#include "tessera/support/host_tensor.h"

namespace tessera::wild {

struct Array {
  Shape shape;
  std::vector<double> data;

  std::int64_t dim(std::size_t i) const { return shape[i]; }
  double& operator[](std::int64_t i) { return data[static_cast<std::size_t>(i)]; }
  double operator[](std::int64_t i) const { return data[static_cast<std::size_t>(i)]; }
};

// Element i (row-major) is element(i).
Array make(const Shape& shape, const std::function<double(std::int64_t)>& element);
// Uniform in [-1, 1), exact in f32.
Array random(const Shape& shape, Rng& rng);
Array reshape(Array a, const Shape& shape);
HostTensor to_tensor(const Array& a, DType dtype = DType::kF32);

Array map(const Array& a, const std::function<double(double)>& f);
// Of one shape, or b repeats along the leading axes of a.
Array add(const Array& a, const Array& b);
Array mul(const Array& a, const Array& b);

double relu(double x);
double sigmoid(double x);

Array matmul(const Array& a, const Array& b);  // [m, k] x [k, n]
Array transpose(const Array& a);               // of a matrix
Array softmax(const Array& a);                 // over the last axis
std::int64_t argmax(const Array& a, std::int64_t first, std::int64_t count);
// x [1, c, h, w], w [m, c, k, k]
Array conv2d(const Array& x, const Array& w, std::int64_t stride, std::int64_t pad);
// Between the pixels of a [h, w] map; the border goes on outside.
double bilinear(const Array& a, std::int64_t first, std::int64_t h, std::int64_t w, double y,
                double x);

}  // namespace tessera::wild
