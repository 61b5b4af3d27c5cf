// Sentences about the tasks of many networks on many machines, to learn a language model from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/app/tune/tune_problem.h"
#include "tessera/learn/dataset/dataset.h"
#include "tessera/learn/lm/corpus.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {

struct CorpusOptions {
  std::vector<TuneSubject> subjects;     // networks and operations
  std::vector<TuneSubject> without;      // what has a reduction of theirs is left out
  std::vector<target::Target> machines;  // of CPUs with the threads of the code
  std::size_t sentences = 100'000;       // drawn, shared out evenly over tasks and machines
  std::size_t shards = 16;               // the same whatever `threads` is
  int threads = 1;
  std::uint64_t seed = 1;
  // Cost models that give the sentences a quality (model_paths); empty: it stays unknown.
  std::vector<std::string> judges;
  std::string folder;
};

struct CorpusProgress {
  std::string what;  // "reading networks", "drawing"
  std::size_t done = 0, total = 0;
  std::size_t sentences = 0;
  double elapsed_s = 0;  // of what is being done
};
// False: stop; what is written stays.
using CorpusCallback = std::function<bool(const CorpusProgress&)>;

struct CorpusResult {
  std::size_t networks = 0, tasks = 0, machines = 0;  // tasks: of any machine, by key
  std::size_t sentences = 0;
  std::vector<std::string> skipped;  // networks that could not be read, with the reason
  double draw_s = 0;                 // spaces, sentences and files; not reading networks
  bool finished = false;             // else stopped
};

// Writes FOLDER/NNNN.sentences. The same options give the same files. kInvalidArgument: nothing to
// draw from, or the folder holds sentences already.
Result<CorpusResult> draw_sentences(const CorpusOptions& options, const CorpusCallback& progress);

// The networks and shapes of the study that the language model follows, as far as the zoo has them:
// those to learn from, and the twelve that it holds out.
std::vector<std::string> study_networks();
std::vector<std::string> study_holdout();

// Machines that sentences are drawn for unless others are named.
std::vector<std::string> study_machines();

struct RecordedOptions {
  std::string data;             // folder of a dataset
  dataset::SplitOptions split;  // which part is written
  std::uint8_t part = dataset::kTrain;
  bool whole = false;   // all of it instead
  std::string machine;  // part of the name of its target; empty: all
  double share = 1;     // of the tasks, by their keys
  lm::Telling telling;
  std::string folder;
};
struct RecordedResult {
  std::size_t sentences = 0, tasks = 0, unreadable = 0;
};
// One shard with the records of a dataset and their qualities. Errors as above, and those of
// load().
Result<RecordedResult> tell_records(const RecordedOptions& options, const CorpusCallback& progress);

}  // namespace tessera::app
