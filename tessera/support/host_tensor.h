// A dense row-major tensor in host memory: what the interpreter, tests and packers read and write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/support/dtype.h"
#include "tessera/support/result.h"
#include "tessera/support/rng.h"

namespace tessera {

using Shape = std::vector<std::int64_t>;

// Number of elements; fails when a dimension is negative or the size in bytes does not fit 2^46.
Result<std::int64_t> checked_elements(const Shape& shape, DType dtype);
std::int64_t elements(const Shape& shape);
std::string to_text(const Shape& shape);  // "1x3x224x224", "scalar" for rank 0

class HostTensor {
 public:
  HostTensor() = default;
  // Zero-filled, 64-byte aligned. The shape must have passed checked_elements.
  HostTensor(DType dtype, Shape shape);
  // Bytes that lie elsewhere, and stay there as long as `owner` lives, which the tensor and its
  // copies share; nobody may write to them. They are aligned as those of other tensors, with 64
  // readable bytes behind them, unless their values are never read.
  static HostTensor view(DType dtype, Shape shape, std::shared_ptr<const void> owner,
                         const void* bytes);
  bool is_view() const;
  // What holds the bytes, at the first of them: alive as long as any tensor that reads them.
  std::shared_ptr<const void> memory() const { return data_; }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return elements(shape_); }
  std::size_t bytes() const {
    return static_cast<std::size_t>(size()) * static_cast<std::size_t>(size_bytes(dtype_));
  }

  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }
  template <class T>
  T* as() {
    return static_cast<T*>(data());
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data());
  }

  // Element `i` in row-major order as a double (floats) or an integer (ints and bool).
  double get_float(std::int64_t i) const;
  std::int64_t get_int(std::int64_t i) const;
  // Stores with the type's rounding or wrapping.
  void set_float(std::int64_t i, double v);
  void set_int(std::int64_t i, std::int64_t v);

  HostTensor clone() const;
  // The same bytes, as copies share them, in a shape of as many elements.
  HostTensor reshaped(Shape shape) const;

 private:
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::shared_ptr<std::byte> data_;  // shared by copies; clone() separates
};

// Floats uniform in [-1, 1); integers uniform over a small range that cannot overflow short sums;
// bool random.
HostTensor random_tensor(DType dtype, const Shape& shape, Rng& rng);

}  // namespace tessera
