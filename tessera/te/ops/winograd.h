// Winograd convolution F(m x m, 3 x 3) for m = 2, 4, 6.
#pragma once

#include "tessera/support/host_tensor.h"
#include "tessera/te/op_spec.h"
#include "tessera/te/ops/window.h"

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

// The Dag of conv2d with algo=winograd<m>. Its constant input is U, not the weights: make U with
// winograd_weights.
Result<Dag> make_winograd(const OpSpec& spec);

// Stages over image x[n, h, w, ci] and u[m + 2, m + 2, ci, co] of compute_type(x): `prefix`pad, T,
// V, M, Z and then `name`, the output of type `out`. `windows` are the two of a 3x3 kernel with
// stride and dilation 1; m is 2, 4 or 6. With a third window before them, along the depth, x is
// [n, d, h, w, ci] and u[m + 2, m + 2, kd, ci, co]: frames are transformed, and their products
// summed over the window. kInvalidArgument when the tiles do not fit the address space.
Result<ir::Buffer> winograd_stages(DagBuilder& b, const std::string& prefix,
                                   const std::string& name, const ir::Buffer& x,
                                   const ir::Buffer& u, const std::vector<Window>& windows,
                                   std::int64_t m, DType out);

// U[eps, nu, ci, co] = G w G^T of weights w[co, ci, 3, 3], or U[eps, nu, kd, ci, co] of weights
// w[co, ci, kd, 3, 3], computed in double and rounded once to compute_type(w). kInvalidArgument for
// another shape, a type that is not float, or m other than 2, 4, 6.
Result<HostTensor> winograd_weights(const HostTensor& w, int m);

}  // namespace tessera::te
