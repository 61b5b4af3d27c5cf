#include "tessera/machine/runtime/first_touch.h"

#include <algorithm>
#include <cstring>

namespace tessera::runtime {
namespace {

constexpr std::size_t kPageBytes = 4096;
// Below it the wake-up of the workers costs more than the memory's place could.
constexpr std::size_t kSharedBytes = std::size_t{1} << 20;

}  // namespace

void first_touch(const AlignedBuffer& buffer, ThreadPool& pool) {
  if (buffer.bytes() < kSharedBytes) {
    if (buffer.bytes() > 0) std::memset(buffer.data(), 0, buffer.bytes());
    return;
  }
  const tsr_body zero = [](void* closure, std::int64_t begin, std::int64_t end, std::int32_t) {
    const auto& b = *static_cast<const AlignedBuffer*>(closure);
    const std::size_t from = static_cast<std::size_t>(begin) * kPageBytes;
    const std::size_t to = std::min(static_cast<std::size_t>(end) * kPageBytes, b.bytes());
    std::memset(b.data() + from, 0, to - from);
  };
  const std::size_t pages = (buffer.bytes() + kPageBytes - 1) / kPageBytes;
  pool.parallel_for(zero, const_cast<AlignedBuffer*>(&buffer), static_cast<std::int64_t>(pages));
}

}  // namespace tessera::runtime
