#include "tessera/scheduling/space/context.h"

#include <algorithm>

namespace tessera::space {

int Context::lanes(DType t) const { return std::max(1, target.vector_bytes / size_bytes(t)); }

std::int64_t Context::l1_bytes() const {
  return target.l1_bytes > 0 ? target.l1_bytes : std::int64_t{32} << 10;
}

std::int64_t Context::l2_bytes() const {
  return target.l2_bytes > 0 ? target.l2_bytes : std::int64_t{512} << 10;
}

}  // namespace tessera::space
