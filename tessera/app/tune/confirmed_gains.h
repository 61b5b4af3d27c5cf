// What the tasks of a tuning gained, without the luck by which a candidate was picked.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tessera::app {

// The time by which a search picks a candidate is the least of many that are disturbed, and
// promises too much. So the fastest of a task is timed once more, in turns with the default, and
// that ratio alone is what is told: whenever another candidate is the fastest, it is timed again,
// even one that was timed so before, since it may owe its place to that time.
class ConfirmedGains {
 public:
  explicit ConfirmedGains(std::size_t tasks) : tasks_(tasks) {}

  // Whether the candidate, the fastest of the task so far, is another than the last time.
  bool wants(std::size_t task, const std::string& candidate) const {
    return tasks_[task].candidate != candidate;
  }
  // The default is the fastest: nothing was gained.
  void keep_default(std::size_t task, const std::string& candidate);
  // Times of the default and of the candidate in turns. Returns by how much the candidate is
  // faster, all its comparisons together: what to rank it by.
  double confirm(std::size_t task, const std::string& candidate, double default_s,
                 double candidate_s);

  // By which the task is faster than its default, by the last comparison; 1: there was none.
  double gain(std::size_t task) const { return tasks_[task].gain; }
  // Times of all tasks by that and by the times of their defaults (0: not known).
  std::vector<double> seconds(const std::vector<double>& defaults) const;

 private:
  struct Sum {
    double logs = 0;
    int count = 0;
  };
  struct Task {
    std::string candidate;
    double gain = 1;
    std::map<std::string, Sum> compared;  // by candidate
  };
  std::vector<Task> tasks_;
};

// Medians of every other sample: those that a choice is made by, and those that tell what was
// chosen, which must not be the same. Of few samples both are the median of all.
struct Halves {
  double chosen_by_s = 0, told_s = 0;
};
Halves halves_of(const std::vector<double>& samples_s);

}  // namespace tessera::app
