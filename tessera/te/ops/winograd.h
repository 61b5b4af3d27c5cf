// Winograd convolution F(m x m, 3 x 3) for m = 2, 4, 6.
#pragma once

#include "tessera/support/host_tensor.h"
#include "tessera/te/op_spec.h"

namespace tessera::te {

// The Dag of conv2d with algo=winograd<m>. Its constant input is U, not the weights: make U with
// winograd_weights.
Result<Dag> make_winograd(const OpSpec& spec);

// U[eps, nu, ci, co] = G w G^T of weights w[co, ci, 3, 3], computed in double and rounded once to
// compute_type(w). kInvalidArgument for another shape, a type that is not float, or m other than 2,
// 4, 6.
Result<HostTensor> winograd_weights(const HostTensor& w, int m);

}  // namespace tessera::te
