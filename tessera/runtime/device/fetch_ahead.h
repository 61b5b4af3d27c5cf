// Weights that a recording brings into the second cache before the kernel that reads them: a model
// whose weights do not stay there would wait for memory in every kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/runtime/device/device.h"

namespace tessera::runtime {

// Bytes that are fetched together: pieces of a weight begin at multiples of it.
inline constexpr std::size_t kFetchGrain = 128;

// Some bytes of a device's memory.
struct Piece {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

// Of the weights that the calls read, what each call fetches while it runs: one piece or nothing,
// earlier calls for earlier ones. Nothing where all of them stay in a cache of so many bytes from
// one replay to the next.
std::vector<Piece> plan_fetches(const std::vector<std::vector<Piece>>& read,
                                std::int64_t cache_bytes);

// What a device is, too, if kernels of a recording can fetch what others will read.
class FetchingDevice {
 public:
  virtual ~FetchingDevice() = default;
  // As Device::record; calls[i] brings fetched[i] into the cache, if its code can, and need only
  // come after calls after[i] and what these come after (empty: after all before it). Calls that
  // may then run side by side bring their temporaries.
  virtual Result<std::unique_ptr<Recording>> record_fetching(
      std::vector<Call> calls, std::vector<Piece> fetched,
      std::vector<std::vector<std::size_t>> after = {}) = 0;
};

}  // namespace tessera::runtime
