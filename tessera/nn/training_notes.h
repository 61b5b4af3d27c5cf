// What the notes of a network file say about the data that it was trained on.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tessera::nn {

using Notes = std::map<std::string, std::string>;

// Which data one training held out, as its flags said: the kind of split ("by-network") and the
// test networks, comma-separated.
struct TrainingSplit {
  std::string kind, holdout;
  friend bool operator==(const TrainingSplit&, const TrainingSplit&) = default;
};

// Adds that of a training that began with the weights of a file with the notes `before`, or with
// fresh ones (null). What any of the trainings held out but another one did not, was seen.
void note_training(const TrainingSplit& split, const Notes* before, Notes* notes);
// All trainings that made the weights, the last first; empty where the notes do not tell. A
// training that is not known has the kind "unknown".
std::vector<TrainingSplit> trainings(const Notes& notes);
// Most threads of any code that was learnt from, by the note "targets" ("TARGET threads=N; ...");
// 0: not known.
int most_threads(const Notes& notes);
// Of several networks that judge together: what all of them say alike, and all their trainings. At
// least one.
Notes notes_of_all(const std::vector<Notes>& networks);

}  // namespace tessera::nn
