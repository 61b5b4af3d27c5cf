#include "tessera/machine/runtime/aligned_buffer.h"

#include <cstdlib>
#include <limits>
#include <new>

#include <sys/mman.h>

namespace tessera::runtime {

AlignedBuffer::AlignedBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugePageBytes;
  const std::size_t alignment = huge ? kHugePageBytes : kAlignment;
  if (bytes > std::numeric_limits<std::size_t>::max() - alignment) throw std::bad_alloc();
  // A whole number of pages: the kernel does not put a huge page over a partial one.
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (memory_ == nullptr) throw std::bad_alloc();
  // Advice only: a kernel without transparent huge pages refuses, and nothing depends on them.
  if (huge) static_cast<void>(madvise(memory_.get(), rounded, MADV_HUGEPAGE));
}

void AlignedBuffer::Free::operator()(std::byte* memory) const { std::free(memory); }

}  // namespace tessera::runtime
