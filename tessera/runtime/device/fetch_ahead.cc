#include "tessera/runtime/device/fetch_ahead.h"

#include <algorithm>

namespace tessera::runtime {
namespace {

// Of the cache, for what is on its way or not read yet (H200: as good as a quarter for BERT-base).
constexpr std::size_t kAheadShare = 6;

}  // namespace

std::vector<std::vector<Piece>> plan_fetches(const std::vector<std::vector<Piece>>& read,
                                             std::int64_t cache_bytes) {
  std::vector<std::vector<Piece>> plan(read.size());
  std::vector<std::size_t> before = {0};  // bytes of the calls before each
  for (const std::vector<Piece>& pieces : read) {
    std::size_t bytes = before.back();
    for (const Piece& p : pieces) bytes += p.bytes;
    before.push_back(bytes);
  }
  const auto cache = static_cast<std::size_t>(std::max<std::int64_t>(0, cache_bytes));
  if (cache == 0 || before.back() <= cache / 2) return plan;
  const std::size_t ahead = cache / kAheadShare;
  std::size_t from = 0;
  for (std::size_t c = 1; c < read.size(); ++c) {
    while (before[c] - before[from] > ahead) ++from;
    if (from == c) continue;  // what it reads would come too late
    for (const Piece& p : read[c]) plan[from].push_back({p.memory, std::min(p.bytes, ahead)});
  }
  return plan;
}

}  // namespace tessera::runtime
