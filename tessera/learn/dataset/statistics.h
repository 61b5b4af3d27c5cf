// What is in a dataset, in numbers for people.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/learn/dataset/dataset.h"

namespace tessera::dataset {

// Of a list of numbers; zeros where it is empty.
struct Quantiles {
  double least = 0, quarter = 0, median = 0, three_quarters = 0, most = 0;
};
Quantiles quantiles_of(std::vector<double> values);

struct TaskStatistics {
  std::int32_t task = 0, machine = 0;
  std::size_t records = 0, valid = 0;
  double best_s = 0, median_s = 0;  // 0: none is valid
};

struct NetworkStatistics {
  std::string name;
  std::size_t tasks = 0, covered = 0;  // covered: tasks with valid records
  std::size_t records = 0, valid = 0;  // of its tasks
};

struct Statistics {
  std::size_t records = 0, valid = 0;
  std::vector<TaskStatistics> tasks;  // one for each task and machine that have records
  std::vector<NetworkStatistics> networks;
  std::vector<std::size_t> machine_records;     // in the order of the machines
  std::map<std::string, std::size_t> outcomes;  // "ok", "censored", failures
  Quantiles records_a_task, spread;  // spread: median seconds over best seconds of a task
};
Statistics statistics_of(const Dataset& dataset);

// The same, of examples one by one: memory for the times of one task at a time.
class StatisticsCounter {
 public:
  // Machines, networks and tasks of `header`, which must outlive it.
  explicit StatisticsCounter(const Dataset& header);
  void add(const Example& example);  // grouped by task
  Statistics finish();

 private:
  void end_task();

  const Dataset& header_;
  Statistics out_;
  std::map<std::pair<std::int32_t, std::int32_t>, TaskStatistics> tasks_;  // by task, machine
  std::int32_t task_ = -1;                                                 // of `seconds_`
  std::map<std::int32_t, std::vector<double>> seconds_;                    // by machine
};

// Of a network on a machine: the share of its floating-point operations in tasks without timed
// records. Tasks that the dataset does not know are in `unknown`.
struct NetworkCoverage {
  std::string machine;  // its processor
  int threads = 1;      // of the measured code
  std::string name;
  double missing = 0;
  std::vector<std::string> tasks;  // names of those without records that are more than 1 %
  std::size_t unknown = 0;
};
// On every machine that has records and whose target contains `machine`.
std::vector<NetworkCoverage> coverage_of(const Dataset& dataset,
                                         const std::vector<std::string>& networks,
                                         const std::string& machine = "");

}  // namespace tessera::dataset
