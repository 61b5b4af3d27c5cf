// The stages of transposed convolutions: what operation specs and the operators of the graph share.
#pragma once

#include "tessera/lang/te/ops/window.h"

namespace tessera::te {

// One spatial dimension: input element i and tap k meet in output i * stride + k * dilation -
// pad_lo, for outputs 0 <= o < out.
struct TransposedWindow {
  std::string axis;
  std::int64_t size = 0, kernel = 0, stride = 1, dilation = 1, pad_lo = 0;
  std::int64_t out = 0;
};

// Of a complete spec of conv_transpose2d. kInvalidArgument when no output is left.
Result<std::vector<TransposedWindow>> read_transposed_windows(const OpSpec& spec);

struct ConvTransposeParams {
  std::vector<TransposedWindow> windows;
  std::int64_t groups = 1;
  bool channels_first = false;
  // What the phases read for each position is copied together first, and the positions of all
  // images are one axis: rows of small maps are too short for a tile. With channels last, one group
  // and dilation 1.
  bool gathered = false;
};

struct ConvTransposeNames {
  std::string pad, phases, out;
  std::string gathered = "gathered";
};

// Stages over image x and weight[ci, co / groups, k...], accumulated in `acc`; returns stage
// `names.out` of type `out`: n, o*, co in memory order. With dilation 1 by output phases: output t
// = S*q + r (t = o + padding) gathers only the taps k = r + S*u, from input q - u. So every phase r
// is a dense convolution with ceil(K/S) taps and no multiplication meets an inserted zero.
ir::Buffer conv_transpose_stages(DagBuilder& b, const ConvTransposeNames& names,
                                 const ir::Buffer& x, const ir::Buffer& weight,
                                 const ConvTransposeParams& params, DType acc, DType out);

}  // namespace tessera::te
