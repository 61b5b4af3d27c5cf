// What all trainees have: weights on a device, which steps of AdamW change. Needs no torch.
#pragma once

#include <string>

#include "tessera/learn/train/weights.h"
#include "tessera/support/result.h"

namespace tessera::train {

class Optimized {
 public:
  virtual ~Optimized() = default;
  // Mean loss of the steps since the last call; waits for the device.
  virtual double take_loss() = 0;

  virtual Weights weights() const = 0;
  virtual OptimizerState optimizer() const = 0;
  // kInvalidArgument: not those of the network.
  virtual Result<void> set_weights(const Weights& weights) = 0;
  virtual Result<void> set_optimizer(const OptimizerState& state) = 0;
  virtual std::string device() const = 0;  // "cpu", "cuda"
};

}  // namespace tessera::train
