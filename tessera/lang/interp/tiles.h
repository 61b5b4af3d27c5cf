// Tile registers of a thread, and what the intrinsics of tiles do with them.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/lang/interp/scalar.h"

namespace tessera::interp {

struct Frame;
struct Node;

struct Tile {
  std::int64_t rows = 0, columns = 0;
  DType dtype = DType::kI32;
  std::vector<Scalar> elements;  // row by row
};

inline constexpr std::size_t kTiles = 8;

// `node` is a call of kTileZero, kTileLoad, kTileDot or kTileStore.
void run_tile(const Node& node, Frame& frame);

}  // namespace tessera::interp
