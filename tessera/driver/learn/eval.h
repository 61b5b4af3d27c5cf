// How well cost models order candidates that were measured but not learnt from.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/dataset/metrics.h"
#include "tessera/nn/training_notes.h"

namespace tessera::driver {

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
  dataset::SplitOptions split;  // that of training, or tests see what was learnt from
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
  // Test records that the model was trained on or chosen by, as the notes of its file tell: its
  // trainings held out others. Nothing: the file does not tell. Also among the notes, as
  // "seen_in_training".
  std::optional<std::size_t> seen;
  dataset::Evaluation evaluation;
};

struct EvalResult {
  std::size_t records = 0, tasks = 0;  // with a time, in the test part
  std::size_t unreadable = 0;          // candidates that the space no longer has: left out
  std::vector<std::string> networks;   // of all models, in the order of the dataset
  std::vector<ModelEvaluation> models;
  // "random": scores that know nothing. "default": the schedule chosen without a model, where every
  // test task was measured with it.
  std::vector<ModelEvaluation> baselines;
};

// kInvalidArgument: no test records, a model of other features, scores of another dataset; kIo:
// files that cannot be read. Messages name the file.
Result<EvalResult> evaluate_models(const EvalOptions& options);

// The parts of a training's split on this data; all is learnt from where the split is not known.
dataset::Split training_split(const dataset::Dataset& data, const nn::TrainingSplit& training);

// The text of the default candidate of an example's task on its machine; empty: not known.
std::string default_candidate(const dataset::Dataset& data, const dataset::Example& example);

// One line for every model that has seen test records, to be read with its numbers.
std::string seen_in_training(const EvalResult& result);

// The dataset that comes with Tessera, found like weights_folder(); empty: there is none.
std::string data_folder();

// All models that come with Tessera, each for the machines of its family. kInvalidArgument: none.
Result<std::vector<EvalSource>> shipped_sources();

}  // namespace tessera::driver
