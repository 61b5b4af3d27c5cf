// What the notes of a network file say about the data that it was trained on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tessera::nn {

using Notes = std::map<std::string, std::string>;

// Which data one training held out, as its flags said: the kind of split ("by-network"), the test
// networks, comma-separated, and how the rest was drawn ("by-reduction=yes,seed=1,...";
// dataset::to_note). Empty: not noted.
struct TrainingSplit {
  std::string kind = {}, holdout = {}, how = {};
  friend bool operator==(const TrainingSplit&, const TrainingSplit&) = default;
};

// Adds that of a training that began with the weights of a file with the notes `before`, or with
// fresh ones (null). What any of the trainings held out but another one did not, was seen: tasks
// that `notes` has are joined with those of `before`, and forgotten where that does not tell.
void note_training(const TrainingSplit& split, const Notes* before, Notes* notes);
// All trainings that made the weights, the last first; empty where the notes do not tell. A
// training that is not known has the kind "unknown".
std::vector<TrainingSplit> trainings(const Notes& notes);
// Tasks that a model learned from and those that it was chosen by, as digests of their keys.
struct TrainingTasks {
  std::set<std::string> training, validation;
  bool saw(const std::string& key) const;
  bool validated(const std::string& key) const;  // and never learned from it
};
void note_tasks(const std::set<std::string>& training_keys,
                const std::set<std::string>& validation_keys, Notes* notes);
// Nothing: the notes do not tell, or cannot be read.
std::optional<TrainingTasks> training_tasks(const Notes& notes);

// Timed candidates that were learned from, by their kind (space::candidate_kind).
using KindCounts = std::map<std::string, std::int64_t>;
void note_kinds(const KindCounts& kinds, Notes* notes);
KindCounts kinds_of(const Notes& notes);  // empty: the notes do not tell, or cannot be read

// Most threads of any code that was learned from, by the note "targets" ("TARGET threads=N; ...");
// 0: not known.
int most_threads(const Notes& notes);
// Of several networks that judge together: what all of them say alike, and all their trainings. At
// least one.
Notes notes_of_all(const std::vector<Notes>& networks);

}  // namespace tessera::nn
