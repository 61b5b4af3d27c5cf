// Memory near the cores that will work on it.
#pragma once

#include "tessera/machine/runtime/aligned_buffer.h"
#include "tessera/machine/runtime/thread_pool.h"

namespace tessera::runtime {

// Zeroes a new buffer with every worker in its share. The system takes a page from the memory of
// the core that touches it first, and a worker later runs the same share of each loop.
void first_touch(const AlignedBuffer& buffer, ThreadPool& pool);

}  // namespace tessera::runtime
