// Datasets of whole models: many plans of each, built, checked and timed in turns with the rules'
// plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/app/compile/load_graph.h"
#include "tessera/backend/exec/compile_model.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {

struct CollectPlansOptions {
  std::vector<std::string> models;  // files or zoo:NAME
  CompileOptions compile;           // for this machine
  int threads = 1;
  std::int64_t plans = 500;     // of each model in the end, the rules' plan included
  double searched_share = 0.5;  // drawn near the fastest so far; the others anywhere
  double again_share = 0;       // measured again: what `dataset show` estimates noise from
  std::vector<std::string> models_of_kernels;  // that estimate plans; none: nobody does
  bool time_kernels = false;  // plans are estimated by their kernels, each timed alone, instead
  double budget_s = 0;        // wall clock of the whole call; 0: no limit
  std::uint64_t seed = 1;
  std::string folder;  // NAME.npz and NAME.plans.jsonl for each model
};

struct CollectPlansProgress {
  std::string model;
  std::int64_t plans = 0, wanted = 0, failed = 0;  // of this model
  double rules_s = 0, best_s = 0;
};

struct CollectPlansResult {
  std::int64_t models = 0, plans = 0, earlier = 0, failed = 0, wrong = 0;
  std::vector<std::string> skipped;    // "MODEL: why"
  std::vector<std::string> unchecked;  // the same: its rules' plan was compared with nothing
  std::string stopped_by;              // "all plans", "budget", "an interrupt"
};

struct CollectPlansCallbacks {
  std::function<void(const CollectPlansProgress&)> progress;
  std::function<bool()> interrupted;
};

// The same call goes on with what the folder holds. Plans that compute something else than the
// rules' plan are counted and left out; that one is compared with every node alone. kRunFailed: it
// computes something else; kIo: the folder cannot be written; kInvalidArgument: it holds lines that
// are not plans.
Result<CollectPlansResult> collect_plans(const CollectPlansOptions& options,
                                         const CollectPlansCallbacks& callbacks);

}  // namespace tessera::app
