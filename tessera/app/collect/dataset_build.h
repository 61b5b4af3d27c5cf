// The second step of making a dataset: object code of sampled candidates, for whatever machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/support/result.h"

namespace tessera::app {

struct BuildOptions {
  std::string folder;  // of sample_dataset
  std::size_t shard = 0;
  int jobs = 1;
  double timeout_s = 10;  // of one candidate
};

struct BuildProgress {
  std::string task;
  std::int64_t candidates = 0, done = 0, failed = 0;  // done: with those of an earlier call
  double elapsed_s = 0;
};

struct BuildResultOfShard {
  std::int64_t built = 0, failed = 0, earlier = 0;
  std::size_t tasks = 0;
  bool finished = false;  // else interrupted
};

// Writes FOLDER/bundle-NNNN.tsb, or goes on with it. Reference values of each task come from the
// interpreter, so that the target need not be this machine. Forks processes: call it before any
// thread is started. `progress` returns false to stop; what is built stays. kInvalidArgument: the
// bundle that is there is of another sample, or ended without some of its candidates.
Result<BuildResultOfShard> build_dataset(const BuildOptions& options,
                                         const std::function<bool(const BuildProgress&)>& progress);

}  // namespace tessera::app
