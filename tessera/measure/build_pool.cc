#include "tessera/measure/build_pool.h"

#include <algorithm>

#include <fmt/format.h>
#include <poll.h>

#include "tessera/measure/bug_report.h"
#include "tessera/measure/build_worker.h"
#include "tessera/measure/verdict.h"
#include "tessera/measure/worker_process.h"

namespace tessera::measure {

BuildPool::BuildPool(const std::vector<te::Dag>& tasks, const target::Target& target, int jobs,
                     double timeout_s)
    : tasks_(tasks), target_(target), timeout_s_(timeout_s) {
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

void BuildPool::submit(std::size_t task, Trial trial) {
  const auto worker = std::ranges::find(workers_, false, &Worker::busy);
  worker->busy = true;
  ++busy_;
  worker->job.trial = std::move(trial);
  worker->job.task = task;
  worker->deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(timeout_s_));
  if (worker->pid == 0) {
    const auto serve = [this](Channel& channel) { serve_builds(channel, tasks_, target_, {}); };
    worker->pid = fork_worker("tessera-build", serve, &worker->channel);
  }
  // A failure shows as the end of the channel when it is read.
  if (worker->pid != 0) worker->channel.send(Kind::kBuild, encode(worker->job));
}

void BuildPool::finish(Worker& worker, Outcome outcome, Built built,
                       std::vector<BuildResult>* out) {
  worker.busy = false;
  --busy_;
  out->push_back({worker.job.trial.id, outcome, std::move(built)});
}

void BuildPool::finish_by_defect(Worker& worker, const std::string& what,
                                 std::vector<BuildResult>* out) {
  Built built;
  built.error = report_bug(tasks_[worker.job.task], worker.job.trial.steps, target_, what, "");
  finish(worker, Outcome::kCompilerBug, std::move(built), out);
}

void BuildPool::read(Worker& worker, std::vector<BuildResult>* out) {
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

std::vector<BuildResult> BuildPool::collect(double wait_s) {
  std::vector<BuildResult> out;
  std::vector<pollfd> fds;
  std::vector<Worker*> workers;
  for (Worker& w : workers_) {
    if (!w.busy) continue;
    if (w.pid == 0) {
      Built none;
      none.error = "the system starts no process";
      finish(w, Outcome::kWorkerLost, std::move(none), &out);
      continue;
    }
    fds.push_back({w.channel.fd(), POLLIN, 0});
    workers.push_back(&w);
  }
  const int wait_ms = out.empty() ? static_cast<int>(wait_s * 1e3) : 0;
  poll(fds.data(), fds.size(), wait_ms);
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents != 0) {
      read(*workers[i], &out);
    } else if (Clock::now() > workers[i]->deadline) {
      bury(*workers[i]);
      Built none;
      none.error = fmt::format("not built within {} s", timeout_s_);
      finish(*workers[i], Outcome::kBuildTimeout, std::move(none), &out);
    }
  }
  return out;
}

}  // namespace tessera::measure
