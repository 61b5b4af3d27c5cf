// A network with its weights on a device: steps of training, and prediction. The only user of torch
// apart from what it calls; this header needs none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/nn/network_file.h"
#include "tessera/train/batches.h"
#include "tessera/train/options.h"
#include "tessera/train/weights.h"

namespace tessera::train {

Result<Weights> initial_weights(const nn::NetworkSpec& spec, std::uint64_t seed);

struct Outputs {
  std::vector<float> score, validity, log_time;  // one per example of the batch
};

class Learner {
 public:
  virtual ~Learner() = default;
  // One step of AdamW on the sum of the losses. Fails where the device does (memory).
  virtual Result<void> step(const Batch& batch, double lr) = 0;
  // Mean loss of the steps since the last call; waits for the device.
  virtual double take_loss() = 0;
  virtual Result<Outputs> predict(const Batch& batch) = 0;

  virtual Weights weights() const = 0;
  virtual OptimizerState optimizer() const = 0;
  // kInvalidArgument: not those of the network.
  virtual Result<void> set_weights(const Weights& weights) = 0;
  virtual Result<void> set_optimizer(const OptimizerState& state) = 0;
  virtual std::string device() const = 0;  // "cpu", "cuda"
};

// Torch is set to deterministic algorithms. kUnavailable: the device is absent; kInvalidArgument:
// the weights are not those of the network.
Result<std::unique_ptr<Learner>> make_learner(const nn::NetworkSpec& spec, const Weights& weights,
                                              const LearnerOptions& options);

}  // namespace tessera::train
