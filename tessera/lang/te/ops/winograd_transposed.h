// Winograd's algorithm for transposed convolutions, whose phases are short convolutions.
#pragma once

#include "tessera/lang/te/ops/conv_transpose.h"
#include "tessera/support/host_tensor.h"

namespace tessera::te {

// One axis of a transposed convolution. Its results s, s + stride, s + 2 stride .. are phase s: a
// convolution of the input with ceil(kernel / stride) taps. Windows of later phases may begin an
// element later.
struct PhasedAxis {
  std::int64_t stride = 1, kernel = 0, pad_lo = 0;
  std::int64_t taps = 0;   // of one phase
  std::int64_t reach = 0;  // of the windows of all phases at one place: taps, or one more
  // Of two phases, the second begins an element later. Its polynomial is then divisible by x, and
  // that of the first one lacks the highest power: one needs no product at 0, the other none at
  // infinity.
  bool skewed = false;

  explicit PhasedAxis(const TransposedWindow& w);
  std::int64_t first() const { return pad_lo / stride - taps + 1; }  // input of result 0
  std::int64_t products(std::int64_t m) const;                       // of one phase
  // The tap that phase s has at place j of the windows of all phases; -1: none.
  std::int64_t tap(std::int64_t s, std::int64_t j) const;
};

// True if both axes have phases of more than one tap, dilation 1, and tiles of m x m of each.
bool has_winograd(const std::vector<TransposedWindow>& windows, std::int64_t m);

// Stages over image x[n, h, w, ci] and u[ry, rx, eps, nu, ci, co] of compute_type(x): `prefix`pad,
// T, V, M, Z and then `name`, the output of type `out`. All phases share pad, T and V.
// kInvalidArgument when the tiles do not fit the address space.
Result<ir::Buffer> winograd_stages(DagBuilder& b, const std::string& prefix,
                                   const std::string& name, const ir::Buffer& x,
                                   const ir::Buffer& u,
                                   const std::vector<TransposedWindow>& windows, std::int64_t m,
                                   DType out);

// u of weights w[ci, co, kh, kw], computed in double and rounded once to compute_type(w).
// kInvalidArgument for another shape, a type that is not float, or a window without such tiles.
Result<HostTensor> winograd_weights(const HostTensor& w,
                                    const std::vector<TransposedWindow>& windows, int m);
Shape winograd_weights_shape(const Shape& w, const std::vector<TransposedWindow>& windows, int m);

}  // namespace tessera::te
