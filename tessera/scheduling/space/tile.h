// The register tile of a matrix product: how many rows by how many vectors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/scheduling/space/context.h"

namespace tessera::space {

struct TileRequest {
  std::int64_t rows = 1;        // extent of the axis that rows are taken from
  std::int64_t columns = 1;     // extent of the axis that vectors lie along
  std::int64_t depth = 1;       // products per element
  int lanes = 4;                // elements of a vector
  bool packed = false;          // the rows of one step lie side by side in memory
  std::int64_t per_vector = 1;  // registers for each vector of columns, apart from the sums
};

struct RegisterTile {
  std::int64_t rows = 1;
  std::int64_t vectors = 1;
};

// The tile with the least estimated time over the whole extents, tails included. Accumulators and
// operands fit the registers of the target.
RegisterTile choose_tile(const TileRequest& request, const target::Target& target);

// The choice of a tile that fits the registers, preferably `preferred`. `fits`: whether it also
// fits everything else.
RegisterTile choose_tile_of(Context& context, const std::string& stage, const TileRequest& request,
                            const RegisterTile& preferred,
                            const std::function<bool(const RegisterTile&)>& fits);

// How many parts of `length` cover `extent`.
inline std::int64_t parts_of(std::int64_t extent, std::int64_t length) {
  return (extent + length - 1) / length;
}
// At most `most` of `tiles`; where possible in equal parts.
std::int64_t even_part(std::int64_t tiles, std::int64_t most);

// Elements that a split of `extent` into parts of `length` should use: `length`, or less when the
// extent is smaller.
std::int64_t at_most(std::int64_t length, std::int64_t extent);

}  // namespace tessera::space
