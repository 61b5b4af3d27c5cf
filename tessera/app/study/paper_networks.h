// Studies of whole networks that need no machine: runs that were recorded, and kernels that were
// timed both alone and inside their networks.
#pragma once

#include "tessera/app/study/paper_study.h"

namespace tessera::app {

// Networks as `tessera bench --record` timed them, in f32 with batch 1: how many times as long a
// peer took.
struct NetworksSpec {
  struct Column {
    const char* name;
    const char* machine;  // as its page is called
    const char* device;
    int threads;  // of a CPU
    const char* peer;
  };
  std::vector<std::string> networks;
  std::vector<Column> columns;
};
// Of every network the newest version that was timed there, with all of its runs. The runs are in
// StudyOptions::data, or beside it in bench/results where that holds a dataset. kInvalidArgument: a
// network was not timed.
Result<StudyResult> networks_study(const NetworksSpec& spec, const StudyOptions& options);

// Networks from kernels drawn among the few fastest of every task, as timed alone; which of them is
// best their times inside the networks say.
struct DrawsSpec {
  const char* alone = "";  // folders of datasets, below StudyOptions::data
  const char* inside = "";
  const char* machine = "";  // part of the target of both
  int threads = 1;
  std::vector<std::size_t> fastest;  // a row for each: drawn among so many
  std::vector<std::int64_t> draws;   // a column for each: the best of so many
};
// How many times as fast as with the fastest of every task, geometric mean over the networks.
// kInvalidArgument: no task has two candidates that were timed in both ways.
Result<StudyResult> draws_study(const DrawsSpec& spec, const StudyOptions& options);

}  // namespace tessera::app
