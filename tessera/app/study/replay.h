// Records that lower to the same loop programs as when they were kept.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/learn/dataset/dataset.h"

namespace tessera::app {

// What kind of kernel a task is: "contract", "conv", "conv_winograd", "depthwise", "pool", ...
std::string family_of(const dataset::TaskInfo& task);

struct ReplayMismatch {
  std::string task, name, family;  // key, for people
  std::string target, candidate, schedule;
  std::string reason;  // that it no longer lowers; empty: to another program
};

struct ReplayResult {
  std::size_t records = 0;
  std::map<std::string, std::size_t> families;  // records of each
  std::vector<ReplayMismatch> mismatches;
};

// The dataset in `folder` with a file programs.txt: 16 hex digits of each record's loop program
// (ir text and layouts of its constants), one per line. Lowers the steps of every record and
// compares. kInvalidArgument: there are not as many lines as records.
Result<ReplayResult> replay(const std::string& folder, int threads);

// Writes programs.txt as the records lower today: what differs from before is a decision. Errors
// where a record does not lower.
Result<std::size_t> keep_programs(const std::string& folder, int threads);

// `per_family` records of each family (all, where there are fewer), spread over its tasks and
// machines.
dataset::Dataset pick_by_family(const dataset::Dataset& dataset, std::size_t per_family);

// What to tell about a mismatch: the record, and how to go on.
std::string to_text(const ReplayMismatch& mismatch, const std::string& folder);

}  // namespace tessera::app
