#include "peers/operation.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace tessera::peers {

Buffer::Buffer(std::int64_t count) : count_(count) {
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kReadAhead = 64;
  const std::size_t wanted = static_cast<std::size_t>(count) * sizeof(float) + kReadAhead;
  const std::size_t rounded = (wanted + kAlignment - 1) / kAlignment * kAlignment;
  data_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, rounded)));
  if (!data_) throw std::bad_alloc();
  std::memset(data_.get(), 0, rounded);
}

int to_int(std::int64_t size) {
  if (size > std::numeric_limits<int>::max()) throw Unsupported("size exceeds 32 bits");
  return static_cast<int>(size);
}

Buffer transposed(const float* data, std::int64_t rows, std::int64_t columns) {
  Buffer result(rows * columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) result.data()[c * rows + r] = data[r * columns + c];
  }
  return result;
}

void copy_image(const float* source, Layout from, float* target, Layout to, std::int64_t n,
                std::int64_t h, std::int64_t w, std::int64_t c) {
  const std::int64_t pixels = h * w;
  if (from == to) {
    std::copy_n(source, n * pixels * c, target);
    return;
  }
  for (std::int64_t image = 0; image < n; ++image) {
    const std::int64_t base = image * pixels * c;
    for (std::int64_t p = 0; p < pixels; ++p) {
      for (std::int64_t channel = 0; channel < c; ++channel) {
        const std::int64_t nhwc = base + p * c + channel;
        const std::int64_t nchw = base + channel * pixels + p;
        target[to == Layout::kNhwc ? nhwc : nchw] = source[from == Layout::kNhwc ? nhwc : nchw];
      }
    }
  }
}

Buffer channels_last_weights(const ConvShape& conv, const float* weights) {
  const std::int64_t ci = conv.ci / conv.groups;
  Buffer result(conv.co * ci * conv.kh * conv.kw);
  copy_image(weights, Layout::kNchw, result.data(), Layout::kNhwc, conv.co, conv.kh, conv.kw, ci);
  return result;
}

void add_bias_relu(float* y, const float* bias, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = y + r * columns;
    for (std::int64_t c = 0; c < columns; ++c) {
      const float sum = row[c] + bias[c];
      row[c] = sum > 0.0f ? sum : 0.0f;
    }
  }
}

}  // namespace tessera::peers
