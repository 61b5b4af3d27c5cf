// Which of a few candidates of each task is fastest inside the running model.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tessera/scheduling/decide/space.h"

namespace tessera::app {

// The fastest of many noisy times promises too much. So the best few of a search are timed anew,
// all of them in one batch; the winner of each task is timed anew once more to decide whether it
// replaces the default, and once more to tell what it gains: no time is both what a candidate was
// picked by and what is told of it.
class InPlaceRace {
 public:
  // By task, those that the search liked best first; tasks without any keep their default.
  explicit InPlaceRace(std::vector<std::vector<decide::Candidate>> entrants);

  struct Draw {
    std::size_t task = 0;
    decide::Candidate candidate;
  };
  // The next batch; empty: the race is over.
  std::vector<Draw> next();
  // Whether that batch is the last one, which tells what the winners gain: all of them together.
  bool tells() const { return batch_ == kBatches; }
  // How long the default took, relative to the candidate; none: it failed.
  void observe(std::size_t task, const decide::Candidate& candidate, std::optional<double> gain);

  struct Winner {
    decide::Candidate candidate;
    double gain = 1;    // by the batch that nothing was decided by
    bool told = false;  // there was such a batch; else nothing is promised
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
  static constexpr int kBatches = 3;  // all entrants; the leaders, to decide; the winners, to tell
  int batch_ = 0;
};

}  // namespace tessera::app
