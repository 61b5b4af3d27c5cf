// What trainings and evaluations of all kinds of models share.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/learn/dataset/dataset.h"

namespace tessera::dataset {

// One measurement: its list is (task, machine). Seconds 0: failed.
struct Timed {
  std::int32_t task = 0, machine = 0;
  float seconds = 0;
};
// The best seconds of the list over its own, in (0, 1]; 0 where it failed.
std::vector<float> labels_of(std::span<const Timed> examples);

// Leaves out what was measured on machines whose target does not contain `text` (empty: nothing),
// or where `tested_too` is false all of that but the test part.
void keep_machine(const Dataset& data, const std::string& text, bool tested_too, Split* split);

// Notes of a model about the data of its training part: "dataset" (digest) and "targets" ("TARGET
// threads=N; ...").
std::map<std::string, std::string> data_notes(const Dataset& data, const Split& split);

// Keys of the tasks that have examples of a part.
std::set<std::string> keys_of(const Dataset& data, const Split& split, std::uint8_t part);
// Timed examples of the training part by their kind (space/kind.h); those of foreign formats, and
// of machines that cannot be read, are of none.
std::map<std::string, std::int64_t> kinds_of(const Dataset& data, const Split& split);

// What of a split is not in its kind and its test networks, as one word of a model's notes:
// "by-reduction=yes,seed=1,test=0.1,validation=0.1,quiet=no,tasks=0,per-task=0".
std::string to_note(const SplitOptions& options);
// Fills those fields. kInvalidArgument: it is not such a word.
Result<void> read_note(const std::string& note, SplitOptions* options);

// An npz with one f32 value an example in each array.
using Columns = std::vector<std::pair<const char*, const std::vector<float>*>>;
Result<void> write_columns(const std::string& path, const Columns& columns);

}  // namespace tessera::dataset
