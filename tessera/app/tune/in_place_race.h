// Which of a few candidates of each task is fastest inside the running model.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tessera/scheduling/decide/space.h"

namespace tessera::app {

// The fastest of many noisy times promises too much. So the best few of a search are timed anew, a
// batch with one candidate of every task in each run of the model; the winner of each task is timed
// anew once more to decide whether it replaces the default, and once more to tell what it gains:
// no time is both what a candidate was picked by and what is told of it.
class InPlaceRace {
 public:
  // By task, those that the search liked best first; tasks without any keep their default.
  explicit InPlaceRace(std::vector<std::vector<decide::Candidate>> entrants);

  struct Draw {
    std::size_t task = 0;
    decide::Candidate candidate;
  };
  // The next batch, at most one candidate of a task; empty: the race is over.
  std::vector<Draw> next();
  // Whether that batch is the last one, which tells what the winners gain: all of them together.
  bool tells() const { return batch_ == batches(most_); }
  // How long the default took, relative to the candidate; none: it failed.
  void observe(std::size_t task, const decide::Candidate& candidate, std::optional<double> gain);

  // Batches that a race of so many candidates per task takes.
  static std::size_t batches(std::size_t entrants) { return entrants + 2; }

  struct Winner {
    decide::Candidate candidate;
    double gain = 1;  // by the batch that nothing was decided by; 1: it did not come to that
  };
  // Of the task, as far as the race went; none: its default.
  std::optional<Winner> winner(std::size_t task) const;
  // Whether there are entrants of the task.
  bool runs(std::size_t task) const { return !tasks_[task].entrants.empty(); }

 private:
  struct Entrant {
    decide::Candidate candidate;
    std::vector<double> gains;
    bool failed = false;
  };
  struct Task {
    std::vector<Entrant> entrants;
    std::optional<std::size_t> picked;
  };

  static bool beats_default(const Entrant& e);
  static std::optional<std::size_t> leader(const Task& task);

  std::vector<Task> tasks_;
  std::size_t most_ = 0, batch_ = 0;
};

}  // namespace tessera::app
