// A trained network on disk: safetensors with everything that is needed to use it again.
#pragma once

#include <map>
#include <string>

#include "tessera/learn/nn/network.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::nn {

// x -> (x - shift) * scale, by column; scale 0: the column says nothing (constant in training).
struct Normalizer {
  std::vector<float> shift, scale;
};

struct TrainedNetwork {
  NetworkSpec spec;
  std::map<std::string, HostTensor> weights;  // by parameter name, f32, complete
  Normalizer rows, context;
  std::string row_schema, context_schema;  // digests of the columns' names
  // log_time of the network + time_shift: log2 seconds.
  double time_shift = 0;
  // Residuals of log2 seconds on validation data: 10 %, 50 %, 90 % quantiles.
  double residual_low = 0, residual_mid = 0, residual_high = 0;
  // For people and for choosing: "loss", "seed", "targets", "records", "tasks", "top1", ...
  std::map<std::string, std::string> notes;
};

// Whole or not at all. Weights are checked on reading: names, shapes, finite values and a checksum.
// kIo: damaged; kInvalidArgument: of another network, schema or version, saying which.
Result<void> save_network(const TrainedNetwork& network, const std::string& path);
Result<TrainedNetwork> load_network(const std::string& path);

}  // namespace tessera::nn
