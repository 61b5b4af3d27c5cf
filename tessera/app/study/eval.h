// How well cost models order candidates that were measured but not learned from.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/learn/dataset/metrics.h"
#include "tessera/learn/dataset/statistics.h"
#include "tessera/learn/nn/training_notes.h"

namespace tessera::app {

// A model to evaluate, or what one said.
struct EvalSource {
  enum class Kind : std::uint8_t {
    kWeights,  // a trained network or saved trees: scored by the code that search uses
    kScores,   // npz with an array "score", one value an example in the order of the dataset
  };
  Kind kind = Kind::kWeights;
  std::string path;        // of weights also several that judge together: "A,B,C"
  std::string name, loss;  // empty: what the file says; of scores: its stem, "-"
  std::string machine;     // only records of machines whose target contains this; empty: all
};

struct EvalOptions {
  std::string data;  // folder of a dataset
  // Folder that keeps features of the whole dataset, shared with training; empty: those of the test
  // part are made in a temporary folder.
  std::string features;
  std::vector<EvalSource> models;
  dataset::SplitOptions split;  // that of training, or tests see what was learned from
  std::string machine;          // as that of a source, for all
  int threads = 1;
  std::uint64_t seed = 1;  // of the baseline "random"
  std::function<void(const std::string& what, std::size_t done, std::size_t total)> progress;
};

struct ModelEvaluation {
  std::string name, loss;
  std::string network, path;  // empty where it has none
  std::map<std::string, std::string> notes;
  // RMSE, R2 and MAPE need scores in the unit of labels. Those of models that only order candidates
  // went through the line that fits best; `line` says so.
  bool line = false;
  // Test records of tasks (within tasks: candidates) that the model was trained on or chosen by, as
  // the notes of its file list them. Nothing: the file does not tell. Also among the notes, as
  // "seen_in_training".
  std::optional<std::size_t> seen;
  dataset::Evaluation evaluation;
  // The same on the test tasks whose reduction no training task of the split has.
  dataset::Evaluation by_reduction;
};

struct EvalResult {
  std::size_t records = 0, tasks = 0;  // with a time, in the test part
  std::size_t unreadable = 0;          // without steps, or with some that do not apply: left out
  std::size_t unseen_records = 0, unseen_tasks = 0;  // of `records` and `tasks`: by_reduction
  std::vector<dataset::NetworkCoverage> coverage;    // of the test networks
  std::vector<std::string> networks;                 // of all models, in the order of the dataset
  std::vector<ModelEvaluation> models;
  // "random": scores that know nothing. "default": the schedule chosen without a model, on the test
  // tasks that were measured with it: `default_tasks` of them.
  std::vector<ModelEvaluation> baselines;
  std::size_t default_tasks = 0;
};

// kInvalidArgument: no test records, a model of other features, scores of another dataset; kIo:
// files that cannot be read. Messages name the file.
Result<EvalResult> evaluate_models(const EvalOptions& options);

// The default of an example's task on its machine: its candidate and its steps, or nothing where
// they are not known.
struct DefaultSchedule {
  std::string candidate, schedule;
};
DefaultSchedule default_of(const dataset::Dataset& data, const dataset::Example& example);

// One line for the networks of which records miss more than 1 %; empty: there are none.
std::string not_covered(const EvalResult& result);

// One line for every model that has seen test records, or whose file does not tell, to be read with
// its numbers.
std::string seen_in_training(const EvalResult& result);

// The dataset that comes with Tessera, found like weights_folder(); empty: there is none.
std::string data_folder();

// All models that come with Tessera, each for the machines of its family. kInvalidArgument: none.
Result<std::vector<EvalSource>> shipped_sources();

}  // namespace tessera::app
