// What zero trials would do to tasks whose records tell what came of it: the best candidate that a
// cost model, or both models together, promise among the recorded ones, beside the default's time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::app {

struct ZeroStudyOptions {
  std::string data;                                 // folder of a dataset
  std::vector<std::string> networks = {"tenset5"};  // whose tasks are judged
  // Instead: the tasks that validated the training of the cost models, by the notes of their files;
  // none that one of them learned from.
  bool validation = false;
  std::string machine;                 // part of the name of its target; empty: all
  std::string language;                // file or "shipped"
  std::string cost_model = "shipped";  // or files that judge together
  std::vector<double> margins = {0, 0.03, 0.05, 0.1, 0.25, 0.5, 1, 1.5};
  std::vector<double> evidence = {-4, -2, 0, 2};                      // beside none
  std::size_t most_tasks = 0;                                         // of each machine; 0: all
  int threads = 1;                                                    // tasks beside each other
  std::function<bool(std::size_t done, std::size_t total)> progress;  // false: stop
};

// Of one margin.
struct ZeroStudyRow {
  double margin = 0;    // log2 that a candidate must promise
  double evidence = 0;  // by which the language model holds it for better; kNoEvidence: not asked
  std::size_t changed = 0, slower = 0;  // tasks; slower: than the default by more than 1 %
  double gain = 1;                      // default's time / its own: geometric mean over all tasks
  double worst = 1;                     // of all tasks
};

// What a network takes, its recorded tasks with a recorded default alone, by the margin and the
// evidence that `compile` asks for.
struct ZeroNetwork {
  std::string name, machine;
  int threads = 1;
  std::size_t tasks = 0, unknown = 0;  // unknown: left out
  double default_s = 0, chosen_s = 0, best_s = 0;
};

struct ZeroStudy {
  std::size_t tasks = 0;
  double best_gain = 1;  // of the fastest recorded
  std::vector<ZeroStudyRow> rows;
  std::vector<ZeroNetwork> networks;
  bool finished = true;
};

// kInvalidArgument: no such networks, no task whose default was recorded, or with `validation` a
// cost model whose notes do not list its tasks.
Result<ZeroStudy> study_zero_trials(const ZeroStudyOptions& options);

}  // namespace tessera::app
