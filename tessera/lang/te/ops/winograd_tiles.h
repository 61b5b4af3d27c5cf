// The stages that Winograd convolutions and transposed ones share.
#pragma once

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/ops/toom_cook.h"

namespace tessera::te {

// One transformed axis of an image. Results lie in tiles of stride * m, phase by phase; a
// convolution has one phase.
struct TileAxis {
  std::string name;        // "h"
  std::int64_t m = 1;      // results of a phase in a tile
  std::int64_t taps = 1;   // of the windows of all phases; 1: the axis is not transformed
  std::int64_t size = 0;   // of the image
  std::int64_t first = 0;  // input element of result 0: -1 for a padding of 1
  std::int64_t out = 0;
  std::int64_t stride = 1;
  bool skewed = false;  // phase 1 has no product at point 0, phase 0 none at infinity

  bool transformed() const { return taps > 1; }
  std::int64_t tiles() const { return (out + stride * m - 1) / (stride * m); }
  std::int64_t reads() const { return m + taps - 1; }  // of a tile: as many as points
  std::int64_t products() const { return reads() - (skewed ? 1 : 0); }  // of a phase
  std::int64_t pad_lo() const { return std::max<std::int64_t>(0, -first); }
  // Whole tiles: the last one may reach past what windows read.
  std::int64_t pad_hi() const {
    return std::max<std::int64_t>(0, first + tiles() * m + taps - 1 - size);
  }
};

struct TileStages {
  std::string prefix, name;
  TileAxis height, width;
  bool phased = false;     // u[ry, rx, eps, nu, ci, co], of a transposed convolution
  std::int64_t depth = 0;  // padding before and after: of images with frames, which u sums over
  std::int64_t depth_lo = 0, depth_hi = 0;
  std::int64_t depth_out = 0;
};

// `prefix`pad, T, V, M, Z and `name`, the output of type `out`.
Result<ir::Buffer> tile_stages(DagBuilder& b, const TileStages& stages, const ir::Buffer& x,
                               const ir::Buffer& u, DType out);

}  // namespace tessera::te
