#include "tessera/scheduling/space/rules/tile_values.h"

#include <algorithm>
#include <set>

#include "tessera/support/ceil_div.h"

namespace tessera::space {
namespace {

// From the fullest list to the sparsest.
enum class Density { kAll, kPowers, kFew };

std::vector<std::int64_t> lengths_up_to(std::int64_t extent, Density density) {
  std::set<std::int64_t> out = {1, std::max<std::int64_t>(1, extent)};
  const std::int64_t factor = density == Density::kFew ? 4 : 2;
  for (std::int64_t p = 1; p <= extent && p <= (std::int64_t{1} << 30); p *= factor) {
    out.insert(p);
    if (density == Density::kAll && 3 * p <= extent) out.insert(3 * p);
  }
  if (density != Density::kFew) {
    for (std::int64_t d = 1; d <= 4096 && d * d <= extent; ++d) {
      if (extent % d != 0) continue;
      out.insert(d);
      out.insert(extent / d);
    }
  }
  return {out.begin(), out.end()};
}

// Prepends one length after the other to `tail`, which covers `covered` elements.
void extend(std::int64_t extent, int count, Density density, std::int64_t covered, Lengths tail,
            std::vector<Lengths>* out) {
  if (count == 0) {
    std::reverse(tail.begin(), tail.end());
    out->push_back(std::move(tail));
    return;
  }
  for (const std::int64_t n : lengths_up_to(ceil_div(extent, covered), density)) {
    tail.push_back(n);
    extend(extent, count - 1, density, covered * n, tail, out);
    tail.pop_back();
  }
}

}  // namespace

std::vector<std::int64_t> vector_lengths(std::int64_t extent, int lanes, std::int64_t most) {
  std::set<std::int64_t> out;
  for (std::int64_t n = lanes; n <= std::min(extent, most); n += lanes) out.insert(n);
  if (extent <= most && (extent < 2 * lanes || extent % lanes == 0)) out.insert(extent);
  if (out.empty()) out.insert(std::max<std::int64_t>(1, std::min<std::int64_t>(extent, lanes)));
  return {out.begin(), out.end()};
}

std::vector<std::int64_t> row_lengths(std::int64_t extent, std::int64_t most) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = 1; n <= std::min(extent, most); ++n) {
    if (n <= 8 || n % 2 == 0 || extent % n == 0) out.push_back(n);
  }
  if (out.empty()) out.push_back(1);
  return out;
}

std::vector<std::int64_t> block_lengths(std::int64_t extent) {
  return lengths_up_to(extent, Density::kAll);
}

std::vector<Lengths> tile_values(std::int64_t extent, int count,
                                 const std::vector<std::int64_t>& inner, std::size_t limit) {
  std::vector<Lengths> out;
  for (const Density density : {Density::kAll, Density::kPowers, Density::kFew}) {
    out.clear();
    for (const std::int64_t n : inner) extend(extent, count - 1, density, n, {n}, &out);
    if (out.size() <= limit) break;
  }
  return out;
}

}  // namespace tessera::space
