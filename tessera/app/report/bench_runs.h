// Recorded runs of `tessera bench --record`: read back for the pages of results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::report {

// A peer beside which a model was timed, in turns with it.
struct PeerTime {
  std::string name, version;
  double median_us = 0;
  double ratio = 0;             // its time / ours: above 1, ours is faster
  bool same_precision = false;  // its outputs agree with ours within the tolerance of the type
  bool trusted = false;         // its samples were not disturbed
};

// One model as it was timed in one run.
struct TimedModel {
  std::string name;  // "zoo:resnet50"
  std::string device, dtype;
  int threads = 1;
  std::int64_t batch = 1;
  double median_us = 0;
  bool trusted = false;
  std::vector<PeerTime> peers;
};

struct BenchRunFile {
  std::string machine;      // its page: "sapphirerapids-16"
  std::string description;  // of the machine, for people
  std::string version, date, command, note;
  std::vector<TimedModel> models;
};

// Every .json below `folder`, the oldest first. The error names the file and what is wrong with it.
Result<std::vector<BenchRunFile>> read_bench_runs(const std::string& folder);
Result<BenchRunFile> bench_run_from_json(const std::string& text);

}  // namespace tessera::report
