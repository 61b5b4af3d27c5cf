// Weights on a device and the steps that AdamW takes with them.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tessera/learn/nn/network.h"
#include "tessera/learn/train/weights.h"

namespace tessera::train {

// kUnavailable: the device is absent. "cpu", "cuda", "auto": cuda where there is one. Sets torch to
// deterministic algorithms and to so many threads of the host (0: as it is).
Result<at::Device> prepare_device(const std::string& name, int threads);

// One buffer for all parameters, so that clipping and Adam take a few calls whatever their number.
class AdamW {
 public:
  AdamW(std::vector<nn::Parameter> parameters, const at::Device& device);

  // Views of the weights, in the order of the parameters; leaves of autograd.
  const std::vector<at::Tensor>& parts() const { return parts_; }

  // One step down the gradient of `loss`. decay: decoupled, of matrices only; clip: largest norm of
  // a gradient, 0: any.
  void step(const at::Tensor& loss, double lr, double decay, double clip);

  Weights weights() const { return write(values_); }
  OptimizerState state() const;
  // kInvalidArgument: not those of the network.
  Result<void> set_weights(const Weights& weights) { return read(weights, values_); }
  Result<void> set_state(const OptimizerState& state);

 private:
  Result<void> read(const Weights& from, const at::Tensor& to) const;
  Weights write(const at::Tensor& from) const;

  std::vector<nn::Parameter> parameters_;
  std::vector<at::Tensor> parts_;
  at::Tensor values_, gradient_, first_, second_, decayed_;  // decayed: 1 where decay applies
  std::int64_t steps_ = 0;
};

}  // namespace tessera::train
