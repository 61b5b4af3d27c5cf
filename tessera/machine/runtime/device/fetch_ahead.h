// Weights that a recording brings into the second cache before the kernel that reads them: a model
// whose weights do not stay there would wait for memory in every kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/machine/runtime/device/device.h"

namespace tessera::runtime {

// Bytes that are fetched together: pieces of a weight begin at multiples of it.
inline constexpr std::size_t kFetchGrain = 128;

// Of the weights that the calls read, what each call fetches while it runs: one piece or nothing,
// earlier calls for earlier ones. Nothing where all of them stay in a cache of so many bytes from
// one replay to the next.
std::vector<Piece> plan_fetches(const std::vector<std::vector<Piece>>& read,
                                std::int64_t cache_bytes);

}  // namespace tessera::runtime
