// Vectors that some elements side by side take.
#pragma once

#include <cstdint>

namespace tessera::space {

// Full ones, then one for each power of two of the rest.
inline std::int64_t vectors_of(std::int64_t elements, std::int64_t lanes) {
  std::int64_t out = elements / lanes;
  for (std::int64_t rest = elements % lanes; rest > 0; rest &= rest - 1) ++out;
  return out;
}

}  // namespace tessera::space
