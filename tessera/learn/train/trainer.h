// Trains a network on a feature store: epochs, validation, early stop, checkpoints.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "tessera/learn/dataset/features.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/learn/train/options.h"

namespace tessera::train {

struct Validation {
  double peak1 = 0, pairwise = 0;  // averaged over tasks and machines
  double metric() const { return (peak1 + pairwise) / 2; }
};

struct EpochReport {
  int epoch = 0, epochs = 0;  // from 1
  double loss = 0;            // of training
  Validation validation;
  bool best = false;
  double examples_per_second = 0, eta_seconds = 0;
};

struct Trained {
  nn::TrainedNetwork network;  // of the best epoch; notes: loss, seed, records, tasks, epoch, ...
  std::vector<EpochReport> history;
  Validation validation;  // of the best epoch
  bool interrupted = false;
  bool improved = false;  // false: no epoch was better than the weights before the first
};

// `part`: one per example, as in dataset::Split; 0 trains, 1 validates. Once *stop is set, the best
// so far is returned. The same options, data and machine give the same weights.
Result<Trained> train(const dataset::FeatureStore& store, std::span<const std::uint8_t> part,
                      const TrainOptions& options,
                      const std::function<void(const EpochReport&)>& progress = {},
                      const std::atomic<bool>* stop = nullptr);

// One per example of the store; log_time is log2 seconds.
struct Predictions {
  std::vector<float> score, validity, log_time;
};
// kInvalidArgument: the store has other columns than the network was trained on.
Result<Predictions> predict(const dataset::FeatureStore& store, const nn::TrainedNetwork& network,
                            const TraineeOptions& options, int fillers = 0);

// Of a step at `progress` in [0, 1] of the whole training.
double learning_rate(const TrainOptions& options, double progress);

}  // namespace tessera::train
