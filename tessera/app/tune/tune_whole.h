// The last part of a tuning: winners of the tasks put together, checked and timed as whole models.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/app/tune/final_choice.h"
#include "tessera/app/tune/tune_session.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/machine/runtime/timing.h"

namespace tessera::app {

// What is built: a value of every point and one finalist of every task.
// Selection::picks of a task that keeps its default schedule.
inline constexpr std::size_t kDefaultPick = std::numeric_limits<std::size_t>::max();

struct Selection {
  std::vector<std::int32_t> choice;  // per point of the problem
  std::vector<std::size_t> picks;    // per task: index into its finalists
  plan::Decisions given;             // beside those of the points

  friend bool operator==(const Selection&, const Selection&) = default;
};

class WholeModels {
 public:
  // `finalists` by task, fastest first; tasks without any keep their default schedule.
  WholeModels(const TuneOptions& options, TuneSession& session,
              const std::vector<std::vector<Finalist>>& finalists);

  // The cheapest value of every point with the fastest finalist of every task.
  Selection fastest() const;
  // The same schedules with the algorithms of the untuned model.
  Selection with_untuned_algorithms(Selection selection) const;
  // The same algorithms with default schedules.
  Selection with_default_schedules(Selection selection) const;

  // Whether the untuned model, which all others are compared with, computes what code that is made
  // in another way does. Where that cannot be had, a note says so and the report is as it was.
  Result<bool> check_untuned(std::size_t subject, SubjectReport* report);
  // Compares the outputs of every model with those of the untuned model, and its kernels with the
  // interpreter where types are narrow; values that round more are given up one after the other
  // until all agree. False: even the untuned algorithms do not.
  Result<bool> verify(Selection* selection, std::vector<SubjectReport>* reports);
  // Times every model beside the untuned one. With one model and `improve`, tries second bests at
  // random and keeps what is faster; never ends with what is slower than the untuned model. What
  // was found in place and is not proved as a whole is undone task by task, as far as there is
  // time.
  Result<void> time(Selection* selection, bool improve, std::vector<SubjectReport>* reports);

  Result<plan::Plan> plan(const Selection& selection) const;
  // What time() gave up though it seemed faster; none: it gave up nothing of the kind.
  const std::optional<Selection>& unproved() const { return unproved_; }

  struct Built {
    graph::Graph graph;
    task::TaskGraph tasks;
    exec::CompiledModel model;
  };
  // Without a selection: as it is untuned.
  Result<Built> build(std::size_t subject, const Selection* selection);
  // The untuned model, built once where there is one model only.
  Result<std::shared_ptr<const Built>> untuned(std::size_t subject);
  // The one that verify() built last, if that is it.
  Result<std::shared_ptr<const Built>> selected(std::size_t subject, const Selection& selection);
  // Models that take turns.
  Result<std::vector<runtime::Samples>> time_side_by_side(const std::vector<const Built*>& models);
  // The first model and the second in turns, again until it is clear which one is faster.
  Result<Comparison> compare(const std::vector<const Built*>& models);

 private:
  static void tell(const Comparison& comparison, SubjectReport* report);
  // Tasks that run with another schedule than their default, what saves the model most first.
  std::vector<std::size_t> changed_tasks(const Selection& selection) const;
  // Of a selection that as a whole is not sure to be faster: keeps the tasks that are, one half
  // after the other, each try as long as `each_s`; false: none are, and the selection stays.
  Result<bool> undo_changes(std::size_t subject, const Gain& of_all, double each_s,
                            Selection* selection, SubjectReport* report);
  // Where models run: the device, opened with the first, or the cores of this process.
  std::unique_ptr<exec::ModelRunner> runner(const Built& built) const;
  Result<std::vector<HostTensor>> outputs_of(const Built& built) const;  // of random inputs
  // Those of the untuned model, computed once.
  Result<const std::vector<HostTensor>*> wanted(std::size_t subject);
  // Of a build's outputs, relative to what is allowed: above 1 is wrong.
  Result<double> error_of(std::size_t subject, const Built& built);
  struct Error {
    double worst = 0;        // of what is allowed: above 1 is wrong
    std::string wrong_node;  // of the kernel that differs; empty: the outputs do
    std::string text() const;
  };
  // Of the outputs and, where types are narrow, of every kernel by itself: the outputs of such a
  // model say little of a wrong one.
  Result<Error> checked(std::size_t subject, const Built& built, const Selection& selection);
  // Without a selection: of the untuned model. Kernels that agreed before are not compared again.
  Result<Error> of_kernels(const Built& built, const Selection* selection, double of_outputs);
  plan::Decisions decisions(const Selection& selection) const;
  // A model with what was selected, or, without a selection, as the rules decide. `shapes_only`:
  // constants that follow from others are not computed.
  Result<task::PlannedGraph> planned(std::size_t subject, const Selection* selection,
                                     bool shapes_only) const;
  const Finalist* finalist(const std::string& key, const Selection& selection) const;
  // Whether it is what the rules and the default schedules give.
  bool is_untuned(const Selection& selection) const;
  bool give_up_rounding(Selection* selection) const;
  Result<void> improve(std::size_t subject, Selection* selection,
                       std::shared_ptr<const Built>* current);

  const TuneOptions& options_;
  TuneSession& session_;
  std::unique_ptr<runtime::Device> device_;  // from the first build on
  const std::vector<std::vector<Finalist>>& finalists_;
  std::map<std::string, std::size_t> task_of_key_;
  std::vector<double> seconds_;                      // of the fastest finalists, 0: none
  std::shared_ptr<const Built> untuned_, verified_;  // of the only model; the latter as selected:
  Selection verified_selection_;
  std::set<std::pair<std::string, std::string>> agreed_;  // kernels by key and schedule
  std::vector<std::vector<HostTensor>> wanted_;           // by subject, empty: not yet computed
  std::optional<Selection> unproved_;
};

}  // namespace tessera::app
