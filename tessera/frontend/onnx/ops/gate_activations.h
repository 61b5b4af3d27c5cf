// Activation functions of recurrent layers: attributes activations, activation_alpha and
// activation_beta.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/onnx/ops/formula.h"

namespace tessera::onnx {

struct GateActivation {
  Term (*apply)(Term x, double alpha, double beta);
  double alpha = 0, beta = 0;
  double clip = 0;  // bound of the argument; 0: none

  Term operator()(Term x) const;
};

// The functions of all directions: `defaults` for one direction, repeated, where the attribute is
// absent.
Result<std::vector<GateActivation>> read_gate_activations(const Context& c,
                                                          const std::vector<std::string>& defaults,
                                                          std::size_t directions);

}  // namespace tessera::onnx
