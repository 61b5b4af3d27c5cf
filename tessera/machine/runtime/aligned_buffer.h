// Memory for tensors and workspaces: aligned for every vector unit, on huge pages where that pays.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace tessera::runtime {

// 64-byte aligned, not initialised. From kHugePageBytes on it is aligned to huge pages and the
// kernel is advised to use them: fewer TLB misses for operands beyond the second-level cache.
class AlignedBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes);  // throws std::bad_alloc; 0 bytes: data() is null

  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

  // The buffer as values of T; a tail too short for a T is left out.
  template <class T>
  std::span<T> as() const {
    static_assert(alignof(T) <= kAlignment);
    return {reinterpret_cast<T*>(data()), bytes_ / sizeof(T)};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace tessera::runtime
