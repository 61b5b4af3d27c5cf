// What the records of a task tell: the best, what sets them apart, how trials failed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/trials/record/database.h"

namespace tessera::record {

// The decisions of a candidate as words: "sketch" and each name=value of our own text, each line
// "key = value" of a plan, each knob of AutoTVM, the splits and unroll steps of Ansor by stage and
// loop. Empty when it cannot be read.
std::map<std::string, std::string> decisions_of(const Record& record);

struct ValueStatistics {
  std::string value;
  std::int64_t count = 0;
  double median_s = 0, best_s = 0;  // of the records with this value
};

struct DecisionStatistics {
  std::string name;
  std::string best_value;               // of the fastest record
  std::vector<ValueStatistics> values;  // most frequent first
  // How much slower the median record is without the best value than with it; 1: no difference.
  double effect = 1;
};

struct Explanation {
  std::int64_t records = 0, timed = 0;
  std::vector<Record> best;                      // fastest first
  std::vector<DecisionStatistics> decisions;     // largest effect first
  std::map<std::string, std::int64_t> failures;  // by outcome
  std::map<std::string, std::int64_t> reasons;   // by "outcome: reason", failures alone
  double median_s = 0;
};

Result<Explanation> explain(const Database& database, const Filter& filter, std::size_t best_count);

struct TaskDifference {
  std::string task;
  double a_s = 0, b_s = 0;  // best times; 0: none
};

// Best times of two databases, tasks in order of their keys.
Result<std::vector<TaskDifference>> compare(const Database& a, const Database& b,
                                            const Filter& filter);

}  // namespace tessera::record
