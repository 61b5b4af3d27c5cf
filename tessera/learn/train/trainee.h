// A network with its weights on a device: steps of training, and prediction. The only user of torch
// apart from what it calls; this header needs none.
#pragma once

#include <memory>
#include <vector>

#include "tessera/learn/nn/network_file.h"
#include "tessera/learn/train/batches.h"
#include "tessera/learn/train/optimized.h"
#include "tessera/learn/train/options.h"

namespace tessera::train {

Result<Weights> initial_weights(const nn::NetworkSpec& spec, std::uint64_t seed);

struct Outputs {
  std::vector<float> score, validity, log_time;  // one per example of the batch
};

class Trainee : public Optimized {
 public:
  // One step of AdamW on the sum of the losses. Fails where the device does (memory).
  virtual Result<void> step(const Batch& batch, double lr) = 0;
  virtual Result<Outputs> predict(const Batch& batch) = 0;
};

// Torch is set to deterministic algorithms. kUnavailable: the device is absent; kInvalidArgument:
// the weights are not those of the network.
Result<std::unique_ptr<Trainee>> make_trainee(const nn::NetworkSpec& spec, const Weights& weights,
                                              const TraineeOptions& options);

}  // namespace tessera::train
