#include "tessera/trials/measure/run_process.h"

#include <algorithm>

#include <poll.h>

#include "tessera/support/clock.h"
#include "tessera/trials/measure/verdict.h"
#include "tessera/trials/measure/worker_process.h"

namespace tessera::measure {
RunProcess::RunProcess(const std::vector<te::Dag>& tasks, const target::Target& target,
                       const MeasureOptions& options, ExpectedOfTask expected)
    : tasks_(tasks), target_(target), options_(options), expected_(std::move(expected)) {}

RunProcess::~RunProcess() { bury(); }

void RunProcess::bury() {
  if (pid_ != 0) bury_worker(pid_);
  pid_ = 0;
  channel_.close();
}

Measurement RunProcess::run(const RunItem& item) {
  Measurement m;
  m.id = item.job.trial.id;
  m.build_ms = item.built.build_ms;
  if (pid_ == 0) {
    const auto serve = [this](Channel& channel) {
      serve_runs(channel, tasks_, target_, options_, expected_, &current_);
    };
    pid_ = fork_worker("tessera-run", serve, &channel_);
  }
  if (pid_ == 0) {
    m.outcome = Outcome::kWorkerLost;
    m.reason = "the system starts no process";
    return m;
  }
  RunRequest request;
  request.items.push_back(item);
  channel_.send(Kind::kRun, encode(request));  // a failure shows when the reply is read
  receive(item, &m);
  return m;
}

bool RunProcess::receive(const RunItem& item, Measurement* m) {
  bool preparing = true, timed_out = false;
  Clock::time_point deadline = seconds_from_now(kPrepareLimit);
  for (;;) {
    const double left_ms = 1e3 * seconds_until(deadline);
    if (left_ms <= 0) {
      timed_out = true;
      break;
    }
    pollfd poller{channel_.fd(), POLLIN, 0};
    if (poll(&poller, 1, static_cast<int>(std::min(left_ms + 1, 1e6))) <= 0) continue;
    const bool alive = channel_.fill();
    while (const std::optional<Frame> frame = channel_.next()) {
      RunReply reply;
      if (frame->kind == Kind::kRan && decode(*frame, &reply) && reply.measurements.size() == 1) {
        *m = std::move(reply.measurements[0]);
        if (reply.last) bury();
        return true;
      }
      preparing = false;
      deadline = seconds_from_now(frame->kind == Kind::kCalling
                                      ? call_limit_s(item.job.trial, target_, options_)
                                      : options_.run_timeout_s);
    }
    if (!alive) break;
  }
  const int status = bury_worker(pid_);
  pid_ = 0;
  channel_.close();
  const Verdict verdict = run_verdict(status, timed_out, preparing);
  m->outcome = verdict.outcome;
  m->reason = verdict.reason;
  return false;
}

}  // namespace tessera::measure
