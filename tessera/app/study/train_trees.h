// Boosted trees fitted to a dataset: the one model that needs no tessera-train.
#pragma once

#include <functional>
#include <string>

#include "tessera/learn/dataset/features.h"
#include "tessera/learn/dataset/metrics.h"

namespace tessera::app {

struct TrainTreesOptions {
  std::string data, features;  // folders of the dataset and of its features, made when absent
  std::string output;          // model file; empty: none
  std::string scores;          // npz with the score of every example; empty: none
  dataset::SplitOptions split;
  std::string machine;  // train on targets that contain this; empty: all
  std::string objective = "rank";
  int rounds = 400, depth = 8;
  double time_limit_s = 0;  // of the fit; 0: none
  // Feature values in memory at most, a fit holding about twice as much: beyond that every task
  // gives the same share of its examples.
  std::size_t most_values = std::size_t{120} << 20;
  int threads = 1;
  std::uint64_t seed = 1;
  std::function<void(const std::string&)> note;  // one line for people
};

struct TrainTreesResult {
  std::size_t records = 0, tasks = 0;  // fitted to
  double seconds = 0;                  // of the fit
  dataset::Evaluation validation, test;
};

Result<TrainTreesResult> train_trees(const TrainTreesOptions& options);

}  // namespace tessera::app
