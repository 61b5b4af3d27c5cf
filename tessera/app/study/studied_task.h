// Tasks of held-out networks with the records that a dataset has of them: what studies work on.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tessera/app/tune/recorded_task.h"
#include "tessera/learn/dataset/dataset.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {

// A task on a machine, with the records there are of it.
struct StudiedTask {
  const dataset::TaskInfo* task = nullptr;
  target::Target target;  // of the code
  std::vector<const dataset::Example*> examples;
};

// Those of `keys` that have records, by machine: machines with `machine` in their target, at most
// `most` tasks of each (0: all).
Result<std::vector<std::vector<StudiedTask>>> recorded_tasks(const dataset::Dataset& data,
                                                             const std::set<std::string>& keys,
                                                             const std::string& machine,
                                                             std::size_t most);
// So many of them, by an order that says nothing.
void keep_some(std::size_t most, std::vector<StudiedTask>* tasks);

// Records that are of today's space.
Result<RecordedTask> read_records(const StudiedTask& studied, bool withheld);

}  // namespace tessera::app
