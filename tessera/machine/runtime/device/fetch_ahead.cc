#include "tessera/machine/runtime/device/fetch_ahead.h"

#include <algorithm>

namespace tessera::runtime {
namespace {

// A call fetches what the third one behind it reads or a later one: the two between hide the way
// from memory (H200, GPT-2 in f16: 320 us; 326 with one between, also with three).
constexpr std::size_t kBefore = 3;
// Of the cache, what is fetched for one call and by one call.
constexpr std::size_t kCallShare = 6, kPieceShare = 12;

}  // namespace

std::vector<Piece> plan_fetches(const std::vector<std::vector<Piece>>& read,
                                std::int64_t cache_bytes) {
  std::vector<Piece> plan(read.size());
  std::size_t all = 0;
  for (const std::vector<Piece>& pieces : read)
    for (const Piece& p : pieces) all += p.bytes;
  const auto cache = static_cast<std::size_t>(std::max<std::int64_t>(0, cache_bytes));
  if (cache == 0 || all <= cache / 2) return plan;
  const auto share_of = [&](std::size_t n) { return cache / n / kFetchGrain * kFetchGrain; };
  const std::size_t call = share_of(kCallShare), piece = share_of(kPieceShare);
  // From the last one on, each as late as may be.
  std::size_t free = read.size();  // calls before this one have nothing to fetch yet
  for (std::size_t c = read.size(); c-- > kBefore;) {
    std::size_t left = call;
    free = std::min(free, c - kBefore + 1);
    for (auto p = read[c].rbegin(); p != read[c].rend(); ++p) {
      auto* memory = static_cast<char*>(p->memory);
      for (std::size_t done = 0; done < p->bytes && left > 0 && free > 0;) {
        const std::size_t bytes = std::min({piece, left, p->bytes - done});
        plan[--free] = {memory + done, bytes};
        done += bytes;
        left -= bytes;
      }
    }
  }
  return plan;
}

}  // namespace tessera::runtime
