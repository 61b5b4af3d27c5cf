// Build workers alone, for code that is run elsewhere.
#pragma once

#include <chrono>
#include <list>
#include <vector>

#include "tessera/measure/messages.h"
#include "tessera/target/target.h"
#include "tessera/te/dag.h"

namespace tessera::measure {

struct BuildResult {
  std::uint64_t id = 0;            // of the trial
  Outcome outcome = Outcome::kOk;  // else kBuildError, kBuildTimeout, kWorkerLost, kCompilerBug
  Built built;                     // its `error` is the reason
};

// Used by a process of one thread. All workers end with it.
class BuildPool {
 public:
  // The arguments must outlive it.
  BuildPool(const std::vector<te::Dag>& tasks, const target::Target& target, int jobs,
            double timeout_s);
  ~BuildPool();
  BuildPool(const BuildPool&) = delete;
  BuildPool& operator=(const BuildPool&) = delete;

  bool has_room() const { return busy_ < workers_.size(); }
  std::size_t pending() const { return busy_; }
  // Of the task with this index; needs has_room().
  void submit(std::size_t task, Trial trial);
  // Those that are built after at most `wait_s`.
  std::vector<BuildResult> collect(double wait_s);

 private:
  using Clock = std::chrono::steady_clock;
  struct Worker {
    pid_t pid = 0;  // 0: not forked yet
    Channel channel;
    bool busy = false;
    Job job;
    Clock::time_point deadline{};
  };
  void read(Worker& worker, std::vector<BuildResult>* out);
  void finish(Worker& worker, Outcome outcome, Built built, std::vector<BuildResult>* out);
  void finish_by_defect(Worker& worker, const std::string& what, std::vector<BuildResult>* out);
  int bury(Worker& worker);

  const std::vector<te::Dag>& tasks_;
  const target::Target& target_;
  double timeout_s_;
  std::list<Worker> workers_;
  std::size_t busy_ = 0;
};

}  // namespace tessera::measure
