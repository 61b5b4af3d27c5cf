// The cost model that the tasks of a tuning share, and the scorers that the policies see.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/learn/model/cost_model.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/search/policy.h"
#include "tessera/support/result.h"

namespace tessera::search {

struct LearnerOptions {
  std::string model = "xgb";       // of model::model_table(): what learns during the search
  std::string objective = "rank";  // or "regression"
  // What that model sees: "statement", "loop", "curve", "launch" (one model for all tasks, from
  // feature::extract) or "decisions" (Space::vector_of, one model a task).
  std::string features = "statement";
  // A global model, learned elsewhere: scores from the first trial on, alone at first, then
  // corrected by what is measured, and left aside on tasks that it mispredicts (model::Guard). The
  // guard also decides where the code has more threads than the model has seen: what such a model
  // says of parallel decisions counts until measurements contradict it.
  std::vector<std::string> pretrained;  // files of any models that judge together; empty: none
  std::shared_ptr<const model::CostModel> global;  // or the model itself
  int code_threads = 0;  // of the measured code; 0: all cores of the target
  std::uint64_t seed = 1;
  // Fits in a thread of its own and takes the new model over when it is done. Off: update() fits
  // before it returns, so that the same observations give the same scores.
  bool background = true;
  double fit_limit_s = 10;      // of one fit
  int threads = 1;              // for fits, and for scores of a pretrained model
  int feature_threads = 1;      // for features of candidates
  std::size_t first_fit = 24;   // observations before the first fit
  double growth = 0.2;          // share of new observations before the next fit, and
  std::size_t min_growth = 16;  // at least that many
};

struct LearnerState {
  std::size_t observations = 0;  // those that have features
  int fits = 0;
  double fit_seconds = 0;   // all fits together
  std::int64_t scored = 0;  // candidates, without those found in the cache
  // Of the last fit, or where that went well, of a global model that cannot judge candidates.
  std::string last_error;                           // empty: none
  std::size_t tasks = 0, tasks_without_global = 0;  // the latter: where it was left aside
};

// Owned by one thread. Tasks are added before their scorers are used.
class Learner {
 public:
  // kUnavailable when the model is not in this build, kInvalidArgument for unknown names, and
  // whatever loading the file says.
  static Result<std::unique_ptr<Learner>> make(const LearnerOptions& options);
  virtual ~Learner() = default;  // waits for a fit that is running

  // The scorer of a new task; owned by the learner. `space` must outlive it.
  virtual Scorer& add_task(const space::Space& space) = 0;
  // What came of candidates of the task that `scorer` was made for.
  virtual void observe(const Scorer& scorer, std::span<const Observation> observations) = 0;
  // log2 of the seconds of candidates of that task, as the global model predicts them; empty where
  // it tells none, or is not believed there.
  virtual std::vector<float> log_times(const Scorer& scorer,
                                       std::span<const decide::Candidate> candidates) = 0;
  // Whether the global model has a say in the scores of that task.
  virtual bool believes_global(const Scorer& scorer) const = 0;
  // Takes a finished fit over, and starts the next when enough is new. Call it between batches.
  virtual void update() = 0;
  // Returns when no fit is running and the last one has been taken over.
  virtual void wait() = 0;
  virtual LearnerState state() const = 0;
  // The current model, for the next tuning. kInvalidArgument before the first fit, or when there is
  // one model a task.
  virtual Result<void> save(const std::string& path) const = 0;
};

}  // namespace tessera::search
