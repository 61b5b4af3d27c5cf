// Winograd convolution: output tiles of m x m, m = 2, 4, 6, by Toom-Cook along each axis that has
// more than one tap.
#pragma once

#include "tessera/lang/te/op_spec.h"
#include "tessera/lang/te/ops/window.h"
#include "tessera/support/host_tensor.h"

namespace tessera::te {

// A value of `algo` of conv2d: direct, or Winograd with output tiles of tile x tile.
struct ConvAlgorithm {
  const char* name;
  int tile;  // 0: direct
};
const std::vector<ConvAlgorithm>& conv_algorithms();  // direct first, then by tile

// The tile of an algorithm, 0 for what is not Winograd.
int winograd_tile(std::string_view algorithm);
int winograd_tile(const OpSpec& spec);

// Products for a tile along an axis with so many taps: one tap is not transformed.
std::int64_t winograd_products(std::int64_t taps, std::int64_t m);
// True if windows of kh x kw have tiles of m x m: what would round more than 6 x 6 tiles of 3 x 3
// windows is left out.
bool has_winograd(std::int64_t kh, std::int64_t kw, std::int64_t m);

// The Dag of conv2d with algo=winograd<m>. Its constant input is U, not the weights: make U with
// winograd_weights.
Result<Dag> make_winograd(const OpSpec& spec);

// Stages over image x[n, h, w, ci] and u[eps, nu, ci, co] of compute_type(x): `prefix`pad, T, V, M,
// Z and then `name`, the output of type `out`; an axis of one tap has neither T nor Z. `windows`
// are the two of a kernel that has_winograd, with stride and dilation 1. With a third window before
// them, along the depth, x is [n, d, h, w, ci] and u[eps, nu, kd, ci, co]: frames are transformed,
// and their products summed over the window. kInvalidArgument when the tiles do not fit the address
// space.
Result<ir::Buffer> winograd_stages(DagBuilder& b, const std::string& prefix,
                                   const std::string& name, const ir::Buffer& x,
                                   const ir::Buffer& u, const std::vector<Window>& windows,
                                   std::int64_t m, DType out);

// U[eps, nu, ci, co] = G w G^T of weights w[co, ci, kh, kw], or U[eps, nu, kd, ci, co] of weights
// w[co, ci, kd, kh, kw], computed in double and rounded once to compute_type(w). kInvalidArgument
// for another rank, a type that is not float, or a window without such tiles.
Result<HostTensor> winograd_weights(const HostTensor& w, int m);
Shape winograd_weights_shape(const Shape& w, int m);  // of a window that has_winograd
// U of an operation whose algo is Winograd's, transposed or not.
Result<HostTensor> winograd_weights(const HostTensor& w, const OpSpec& spec);

}  // namespace tessera::te
