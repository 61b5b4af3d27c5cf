// How often the predicted interval of a network's time holds what was measured.
#pragma once

#include <string>
#include <vector>

#include "tessera/driver/learn/eval.h"
#include "tessera/model/time_calibration.h"

namespace tessera::driver {

// A network of the dataset on one machine, as far as the model has not seen its tasks.
struct NetworkTime {
  std::string name;
  int threads = 1;
  std::size_t tasks = 0;
  double low_s = 0, predicted_s = 0, high_s = 0;  // by the calibration below
  double measured_s = 0;
};

struct ModelCoverage {
  std::string name, path;
  int threads = 1;                     // most of any record
  model::TimeCalibration calibration;  // of all networks together
  model::Coverage coverage;            // of each by the others
  std::vector<NetworkTime> networks;
};

// For the networks among `options.models`, on the records of their machines. What is predicted of a
// task is the candidate that compile would take: of those that were measured, the ones that differ
// from the default in the fewest decisions, each network with four sets of them. Only tasks that no
// training of the model learnt from or was chosen by count, and networks with three of them.
// kInvalidArgument: no model tells times, or there are too few networks.
Result<std::vector<ModelCoverage>> measure_coverage(const EvalOptions& options);

// Writes the calibration into the notes of a network file.
Result<void> store_calibration(const std::string& path, const model::TimeCalibration& calibration);

// Decisions in which two texts of candidates differ; those of other sketches differ in all.
int candidate_distance(const std::string& a, const std::string& b);

}  // namespace tessera::driver
