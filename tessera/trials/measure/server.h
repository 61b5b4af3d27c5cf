// The process between the owner and the workers: forks them, feeds them, buries them.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <vector>

#include <sys/types.h>

#include "tessera/support/clock.h"
#include "tessera/trials/measure/measurer.h"
#include "tessera/trials/measure/messages.h"
#include "tessera/trials/measure/reference.h"
#include "tessera/trials/measure/verdict.h"

namespace tessera::measure {

// Runs in a process of its own that has one thread, so that it may fork at any time, and keeps the
// workers busy while the owner thinks.
class Server {
 public:
  Server(Channel owner, std::vector<te::Dag> tasks, target::Target target, MeasureOptions options);

  // Until the owner is gone.
  void run();

 private:
  struct Worker {
    pid_t pid = 0;  // 0: not forked yet; it comes with its first work
    Channel channel;
    bool busy = false;
    bool stopped = false;  // by SIGSTOP, since stopped_at
    Clock::time_point stopped_at{};
    Clock::time_point deadline{};  // while busy
    bool runs = false;             // else builds
    Job job;                       // build worker
    RunRequest request;            // run worker
    enum class Phase { kPreparing, kCalling, kTiming } phase = Phase::kPreparing;
  };
  struct Group {
    std::size_t wanted = 0, done = 0;  // jobs; built or failed
    std::vector<RunItem> built;
  };

  void warm_up();
  void start_references();
  void release_references();
  void fork_worker(Worker& worker);
  Result<Expected> expected(std::size_t task, const std::vector<HostTensor>& inputs,
                            runtime::ThreadPool& pool);
  void serve_as(Channel& channel, bool runs);  // in the worker
  int bury(Worker& worker);                    // its wait status

  void dispatch();
  void start_build(Worker& worker, Job job);
  void start_run(RunRequest request);
  void set_deadline(Worker& worker, double seconds);
  void stop_builders();
  void continue_builders();
  int poll_timeout_ms() const;
  void poll_once();

  bool read_owner();
  void read_builder(Worker& worker);
  void read_runner();
  void on_built(const Job& job, Built built);
  void keep_built(const Job& job, const Built& built);
  void on_announced(const Frame& frame);
  void on_ran(const RunReply& reply);
  void on_builder_death(Worker& worker, int status);
  void on_runner_death(int status, bool timed_out);
  void blame_one_in_place(RunRequest request, std::uint32_t current, const Verdict& verdict);
  void check_deadlines();
  void cancel(std::uint64_t before);

  bool cancelled(const Job& job) const { return job.number < cancelled_before_; }
  void settle_group(const Job& job, const Built* built);  // null: failed
  bool try_again(const Job& job);
  void fail(const Job& job, Outcome outcome, const std::string& reason, double build_ms = 0);
  void fail_by_defect(const Job& job, const std::string& what);
  void report(const Job& job, Measurement measurement, double waiting_share);

  Channel owner_;
  std::vector<te::Dag> tasks_;
  target::Target target_;
  MeasureOptions options_;
  std::vector<SharedReference> references_;
  volatile std::uint32_t* current_ = nullptr;  // shared with the run worker
  std::vector<int> spare_processors_;          // not of the measured code; empty: there are none
  std::list<Worker> builders_;
  Worker runner_;
  std::deque<Job> to_build_;
  std::deque<RunRequest> to_run_;
  std::map<std::uint64_t, Group> groups_;
  // Of trials in place, by task and steps: the best of them are timed again.
  std::map<std::pair<std::size_t, std::string>, Built> kept_;
  std::size_t kept_bytes_ = 0;
  std::map<std::uint64_t, int> losses_;  // by job: how often its worker was lost
  std::uint64_t cancelled_before_ = 0;
};

}  // namespace tessera::measure
