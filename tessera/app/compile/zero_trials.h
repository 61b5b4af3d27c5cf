// Schedules without measuring: a trained cost model judges candidates of the tasks that are like
// those it learned from. A language model may propose candidates and has a say too.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tessera/frontend/plan/plan.h"
#include "tessera/frontend/task/task.h"
#include "tessera/learn/lm/reader.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::app {

// What a candidate must promise and have when both models judge: chosen by `tessera lm eval
// --zero-trials` on the records of hold-out networks (docs/guide/learning.md).
struct Agreement {
  double margin = 0.05, evidence = -2;
  // Winograd's and transposed convolutions keep their defaults: in networks what is chosen in their
  // place became slower more often than not.
  bool no_transforms = false;
  // Operations for each byte that a kernel reads and writes: with more it keeps its default.
  double most_intensity = std::numeric_limits<double>::infinity();
};
// The same of a cost model that learned from kernels in networks.
inline constexpr Agreement kInNetworks = {
    .margin = 0.25, .evidence = -2, .no_transforms = true, .most_intensity = 20};
bool may_change(const Agreement& agreed, const std::string& task_name, double flops, double bytes);
// A model that learned from fewer timed candidates of a kind (space/kind.h) has no say about it: on
// another machine, with other elements or by another sketch its predictions are worth nothing.
inline constexpr std::int64_t kLeastExamples = 32;
bool knows_kind(const model::CostModel& model, const space::Space& space, int threads,
                const decide::Candidate& candidate);
inline constexpr double kNoEvidence = -std::numeric_limits<double>::infinity();

// What is believed of a candidate.
struct JudgedCandidate {
  decide::Candidate candidate;
  float score = 0, log_time = 0;  // of the cost model; log2 of seconds
  double evidence = 0;            // of the language model, more than of the default
};
struct JudgedTask {
  std::vector<JudgedCandidate> candidates;  // the default first; empty: not even that has features
  bool tells_times = false;                 // else log_time is 0
};
// `candidates` begins with the default. `reader` may be null.
Result<JudgedTask> judge_candidates(const space::Space& space,
                                    const std::vector<decide::Candidate>& candidates,
                                    const std::vector<float>& scores, const model::CostModel& model,
                                    int code_threads, lm::Reader* reader);
// The candidate with the best score that promises to be faster than the default by `margin`, that
// has more evidence than `evidence` (kNoEvidence: any), and that can be built; null: the default
// stays. A model that tells no times promises nothing.
const JudgedCandidate* choose_candidate(
    const JudgedTask& task, double margin, double evidence,
    const std::function<bool(const decide::Candidate&)>& builds);

struct ZeroTrialOptions {
  std::shared_ptr<const model::CostModel> model;
  target::Target target;
  // Of the compiled code, as it is judged. Parallel decisions keep their preferred values when that
  // is one thread, or when the model has seen one thread only (and then judges one).
  int threads = 1;
  int search_threads = 1;  // of this search: that many tasks beside each other
  plan::Plan known;        // schedules that are settled: tasks that it has are not judged
  // Judged in all, shared out evenly: the same model gives the same code on every run.
  std::int64_t candidates = 16'000;
  // Far above what those take: tasks that come after it keep their defaults.
  double time_limit_s = 180;
  // What a candidate must promise over the default, in log2 of the seconds. The best of many
  // predictions owes most of its promise to error: with 0.08 ResNet-50 became 6 % slower and
  // BERT-base 13 %, so only a default that looks almost three times too slow is left.
  double margin = 1.5;
  // Opens a language model, one for each thread; null: there is none. It writes `sentences`
  // candidates of every task, and must have more than the `agreed` evidence for what is chosen:
  // then a promise of the `agreed` margin suffices.
  std::function<Result<std::shared_ptr<lm::Reader>>()> open_language;
  int sentences = 64;
  Agreement agreed;
  std::uint64_t seed = 1;
  std::function<void(std::size_t done, std::size_t total)> progress;
};

struct TaskPrediction {
  std::string key, name;
  int uses = 0;
  std::int64_t scored = 0;            // candidates
  double default_s = 0, seconds = 0;  // predicted; 0: the model tells no times
  bool known = false;    // the model learned from candidates like the default: others were judged
  bool changed = false;  // the schedule is not the default
};

struct ZeroTrialResult {
  std::vector<TaskPrediction> tasks;  // those that were judged
  plan::Plan plan;                    // what was known, and the tasks that changed
  int threads = 1;                    // that were judged
};

Result<ZeroTrialResult> choose_schedules(const std::vector<task::Task>& tasks,
                                         const ZeroTrialOptions& options);

}  // namespace tessera::app
