// What weights were learned from, noted in their files: what `tessera train` writes, for files that
// were trained before it did.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/app/study/eval.h"

namespace tessera::app {

struct NotedData {
  std::string path;
  std::size_t kinds = 0;
  std::int64_t examples = 0;  // of those kinds
  // The split was drawn again: this is the very dataset (by its digest), of the splits that the
  // notes allow just one has as many training records as they say, and there was no training
  // before. Then the tasks are noted too.
  bool exact = false;
};

// For the networks among `options.models`, trained on the records of `options.machine` and, with
// split.quiet, the quiet ones of them. Where the split is not known exactly, what every split that
// the notes allow learns from counts. kInvalidArgument: the notes do not tell of any split, or
// nothing was learned from this data.
Result<std::vector<NotedData>> note_training_data(const EvalOptions& options);

}  // namespace tessera::app
