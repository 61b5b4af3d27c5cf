#include "tessera/trials/measure/build_pool.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <poll.h>

#include "tessera/support/clock.h"
#include "tessera/trials/measure/bug_report.h"
#include "tessera/trials/measure/build_worker.h"
#include "tessera/trials/measure/verdict.h"
#include "tessera/trials/measure/worker_process.h"

namespace tessera::measure {
BuildPool::BuildPool(const std::vector<MeasuredTask>& tasks, target::Target target, int jobs,
                     double timeout_s)
    : target_(std::move(target)), timeout_s_(timeout_s) {
  for (const MeasuredTask& t : tasks) {
    index_[t.key] = tasks_.size();
    tasks_.push_back(t.dag);
  }
  workers_.resize(static_cast<std::size_t>(std::max(1, jobs)));
}

BuildPool::~BuildPool() {
  for (Worker& w : workers_) {
    if (w.pid != 0) bury_worker(w.pid);
  }
}

int BuildPool::bury(Worker& worker) {
  const int status = bury_worker(worker.pid);
  worker.pid = 0;
  worker.channel.close();
  return status;
}

void BuildPool::submit(std::vector<Trial> trials) {
  for (Trial& trial : trials) {
    Job job;
    job.task = index_.at(trial.task);
    job.trial = std::move(trial);
    waiting_.push_back(std::move(job));
  }
  start_waiting();
}

void BuildPool::start_waiting() {
  for (Worker& w : workers_) {
    if (waiting_.empty()) return;
    if (w.busy) continue;
    start(w, std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void BuildPool::start(Worker& worker, Job job) {
  worker.busy = true;
  ++busy_;
  worker.job = std::move(job);
  worker.deadline = seconds_from_now(timeout_s_);
  if (worker.pid == 0) {
    const auto serve = [this](Channel& channel) {
      serve_builds(channel, tasks_, target_, {}, true);
    };
    worker.pid = fork_worker("tessera-build", serve, &worker.channel);
  }
  // A failure shows as the end of the channel when it is read.
  if (worker.pid != 0) worker.channel.send(Kind::kBuild, encode(worker.job));
}

void BuildPool::cancel() {
  waiting_.clear();
  for (Worker& w : workers_) {
    if (!w.busy) continue;
    if (w.pid != 0) bury(w);
    w.busy = false;
  }
  busy_ = 0;
}

// Nothing is timed, so nothing needs to be side by side.
std::vector<Measurement> BuildPool::compare(const std::vector<Trial>& trials) {
  BuildPool apart({}, target_, static_cast<int>(workers_.size()), timeout_s_);
  apart.tasks_ = tasks_;
  apart.index_ = index_;
  apart.submit(trials);
  std::map<std::uint64_t, Measurement> built;
  while (apart.pending() > 0) {
    for (Measurement& m : apart.collect(1)) built[m.id] = std::move(m);
  }
  std::vector<Measurement> out;
  for (const Trial& t : trials) out.push_back(std::move(built[t.id]));
  return out;
}

void BuildPool::finish(Worker& worker, Outcome outcome, Built built,
                       std::vector<Measurement>* out) {
  worker.busy = false;
  --busy_;
  Measurement& m = out->emplace_back();
  m.id = worker.job.trial.id;
  m.outcome = outcome;
  m.reason = built.error;
  m.build_ms = built.build_ms;
  m.built = std::make_shared<Built>(std::move(built));
}

void BuildPool::finish_by_defect(Worker& worker, const std::string& what,
                                 std::vector<Measurement>* out) {
  Built built;
  built.error = report_bug(tasks_[worker.job.task], worker.job.trial.steps, target_, what, "");
  finish(worker, Outcome::kCompilerBug, std::move(built), out);
}

void BuildPool::read(Worker& worker, std::vector<Measurement>* out) {
  const bool alive = worker.channel.fill();
  const std::optional<Frame> frame = worker.channel.next();
  Built built;
  if (frame && frame->kind == Kind::kBuilt && decode(*frame, &built)) {
    if (built.defect) return finish_by_defect(worker, built.error, out);
    const Outcome outcome = built.error.empty() ? Outcome::kOk : Outcome::kBuildError;
    finish(worker, outcome, std::move(built), out);
    return;
  }
  if (alive) return;
  const int status = bury(worker);
  if (!lost_to_others(status)) return finish_by_defect(worker, "ended by " + describe(status), out);
  built.error = fmt::format("compiler ended by {}", describe(status));
  finish(worker, Outcome::kWorkerLost, std::move(built), out);
}

std::vector<Measurement> BuildPool::collect(double timeout_s) {
  const Clock::time_point end = seconds_from_now(timeout_s);
  std::vector<Measurement> out;
  do {
    const double left = seconds_until(end);
    poll_once(std::max(0.0, left), &out);
    start_waiting();
  } while (out.empty() && pending() > 0 && Clock::now() < end);
  return out;
}

void BuildPool::poll_once(double wait_s, std::vector<Measurement>* out) {
  std::vector<pollfd> fds;
  std::vector<Worker*> workers;
  for (Worker& w : workers_) {
    if (!w.busy) continue;
    if (w.pid == 0) {
      Built none;
      none.error = "the system starts no process";
      finish(w, Outcome::kWorkerLost, std::move(none), out);
      continue;
    }
    fds.push_back({w.channel.fd(), POLLIN, 0});
    workers.push_back(&w);
  }
  for (const Worker* w : workers) {
    wait_s = std::min(wait_s, seconds_until(w->deadline));
  }
  const int wait_ms = out->empty() ? std::max(0, static_cast<int>(std::ceil(wait_s * 1e3))) : 0;
  poll(fds.data(), fds.size(), wait_ms);
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents != 0) {
      read(*workers[i], out);
    } else if (Clock::now() > workers[i]->deadline) {
      bury(*workers[i]);
      Built none;
      none.error = fmt::format("not built within {} s", timeout_s_);
      finish(*workers[i], Outcome::kBuildTimeout, std::move(none), out);
    }
  }
}

}  // namespace tessera::measure
