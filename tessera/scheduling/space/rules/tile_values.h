// The lengths that splits may take: not only divisors.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::space {

// Lengths of the parts of a split, outermost first; the outermost part runs as often as it must.
using Lengths = std::vector<std::int64_t>;

// Innermost lengths along which vectors lie: whole vectors, and the extent itself where it is
// short.
std::vector<std::int64_t> vector_lengths(std::int64_t extent, int lanes, std::int64_t most = 64);

// Innermost lengths of an axis that is unrolled: every short one, divisors up to `most`.
std::vector<std::int64_t> row_lengths(std::int64_t extent, std::int64_t most = 16);

// Divisors, powers of two and their triples up to `extent`, which is among them.
std::vector<std::int64_t> block_lengths(std::int64_t extent);

// Tuples of `count` lengths whose last is one of `inner`; their product covers `extent` at most
// once. Sorted from the innermost length outwards. Thinned out until there are at most `limit`.
std::vector<Lengths> tile_values(std::int64_t extent, int count,
                                 const std::vector<std::int64_t>& inner, std::size_t limit = 1500);

}  // namespace tessera::space
