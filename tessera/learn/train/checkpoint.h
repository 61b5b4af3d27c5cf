// The state of a training run between two epochs, as a file.
#pragma once

#include <map>
#include <string>

#include "tessera/learn/train/trainee.h"

namespace tessera::train {

// What must be the same to go on, by name: network, data, loss, learning rate, ...
using RunIdentity = std::map<std::string, std::string>;

struct Checkpoint {
  RunIdentity run;
  int epoch = 0;  // finished ones
  Weights weights, best;
  OptimizerState optimizer;
  int best_epoch = 0;
  double best_metric = -1;
  // Random numbers of an epoch follow from the seed and its number: no state to keep.
};

// Written whole or not at all, into `folder`, which is made.
Result<void> save_checkpoint(const Checkpoint& checkpoint, const std::string& folder);
// kIo: damaged; kInvalidArgument: of another run, naming what differs.
Result<Checkpoint> load_checkpoint(const std::string& folder, const RunIdentity& run);
bool has_checkpoint(const std::string& folder);

}  // namespace tessera::train
