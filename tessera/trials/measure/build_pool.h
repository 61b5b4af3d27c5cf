// Build workers alone, for code that is run elsewhere.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "tessera/support/clock.h"
#include "tessera/trials/measure/measurer.h"
#include "tessera/trials/measure/messages.h"

namespace tessera::measure {

// A measurer that times nothing: what comes of a trial is its code, or why there is none
// (kBuildError, kBuildTimeout, kWorkerLost, kCompilerBug). Used by a process of one thread. All
// workers end with it.
class BuildPool final : public Measurer {
 public:
  BuildPool(const std::vector<MeasuredTask>& tasks, target::Target target, int jobs,
            double timeout_s);
  ~BuildPool() override;
  BuildPool(const BuildPool&) = delete;
  BuildPool& operator=(const BuildPool&) = delete;

  void submit(std::vector<Trial> trials) override;
  std::vector<Measurement> collect(double timeout_s) override;
  std::size_t pending() const override { return waiting_.size() + busy_; }
  void cancel() override;
  std::vector<Measurement> compare(const std::vector<Trial>& trials) override;
  MachineState machine() const override { return {}; }

 private:
  struct Worker {
    pid_t pid = 0;  // 0: not forked yet
    Channel channel;
    bool busy = false;
    Job job;
    Clock::time_point deadline{};
  };
  void start_waiting();
  void start(Worker& worker, Job job);
  void poll_once(double wait_s, std::vector<Measurement>* out);
  void read(Worker& worker, std::vector<Measurement>* out);
  void finish(Worker& worker, Outcome outcome, Built built, std::vector<Measurement>* out);
  void finish_by_defect(Worker& worker, const std::string& what, std::vector<Measurement>* out);
  int bury(Worker& worker);

  std::vector<te::Dag> tasks_;
  std::map<std::string, std::size_t> index_;  // by key
  target::Target target_;
  double timeout_s_;
  std::deque<Job> waiting_;
  std::list<Worker> workers_;
  std::size_t busy_ = 0;
};

}  // namespace tessera::measure
