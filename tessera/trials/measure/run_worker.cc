#include "tessera/trials/measure/run_worker.h"

#include <exception>

#include <unistd.h>

#include "tessera/support/clock.h"
#include "tessera/trials/measure/confine.h"
#include "tessera/trials/measure/guarded_buffer.h"
#include "tessera/trials/measure/run_stand.h"
#include "tessera/trials/measure/verdict.h"

namespace tessera::measure {
namespace {

class RunWorker {
 public:
  RunWorker(Channel& channel, const StandParts& parts)
      : channel_(channel), parts_(parts), current_(parts.current) {}

  RunReply run(const RunRequest& request);

 private:
  void run_alone(const RunRequest& request, RunReply* reply);
  void run_in_place(const RunRequest& request, RunReply* reply);
  void announce(Kind kind, std::size_t item) {
    *current_ = static_cast<std::uint32_t>(item);
    channel_.send(kind, encode(Calling{item}));
  }
  // Null with outcome and reason in `m` when it fails.
  std::unique_ptr<LoadedCandidate> load_checked(const RunRequest& request, std::size_t item,
                                                Measurement* m);
  // Of several candidates the one whose code ran is to blame; the others go to another worker.
  void leave_if_broken(const RunRequest& request) {
    if (!stand_->usable() && request.items.size() > 1) _exit(kDeviceExit);
  }

  Channel& channel_;
  StandParts parts_;
  volatile std::uint32_t* current_;
  std::unique_ptr<RunStand> stand_;         // made when they are first wanted: threads of both
  std::unique_ptr<InPlaceStand> in_place_;  // would be in each other's way
};

Outcome outcome_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBuildFailed:
      return Outcome::kBuildError;
    case ErrorCode::kUnavailable:
      return Outcome::kWorkerLost;
    default:
      return Outcome::kRunError;
  }
}

std::unique_ptr<LoadedCandidate> RunWorker::load_checked(const RunRequest& request,
                                                         std::size_t item, Measurement* m) {
  *current_ = static_cast<std::uint32_t>(item);
  Result<std::unique_ptr<LoadedCandidate>> candidate = stand_->load(request.items[item]);
  if (!candidate.ok()) {
    m->outcome = outcome_of(candidate.error().code);
    m->reason = candidate.error().message;
    announce(Kind::kTiming, item);
    return nullptr;
  }
  announce(Kind::kCalling, item);
  const bool right = (*candidate)->check(m);
  leave_if_broken(request);
  announce(Kind::kTiming, item);
  return right ? std::move(candidate).value() : nullptr;
}

RunReply RunWorker::run(const RunRequest& request) {
  const Clock::time_point start = Clock::now();
  RunReply reply;
  reply.measurements.resize(request.items.size());
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    reply.measurements[i].id = request.items[i].job.trial.id;
    reply.measurements[i].build_ms = request.items[i].built.build_ms;
  }
  if (request.in_place) {
    run_in_place(request, &reply);
  } else {
    run_alone(request, &reply);
  }
  // Those in place share every run.
  const double sharing = request.in_place ? static_cast<double>(request.items.size()) : 1;
  const double ms = milliseconds_since(start) / sharing;
  for (Measurement& m : reply.measurements) m.run_ms = ms;
  return reply;
}

void RunWorker::run_alone(const RunRequest& request, RunReply* reply) {
  if (!stand_) stand_ = parts_.target.is_gpu() ? make_device_stand(parts_) : make_cpu_stand(parts_);
  std::vector<std::unique_ptr<LoadedCandidate>> candidates(request.items.size());
  for (std::size_t i = 0; i < request.items.size(); ++i)
    candidates[i] = load_checked(request, i, &reply->measurements[i]);
  if (request.side_by_side) {
    stand_->time_together(candidates, request.items[0].job.cold_caches, reply);
  } else if (!candidates.empty() && candidates[0]) {
    stand_->time_alone(*candidates[0], request.items[0].job, reply->measurements.data(), reply);
  }
  candidates.clear();
  stand_->tidy();
  reply->last = !stand_->usable();
}

void RunWorker::run_in_place(const RunRequest& request, RunReply* reply) {
  *current_ = kNoItem;
  std::string reason = "there is no model that it could run in";
  if (!in_place_ && parts_.options.in_place) {
    Result<std::unique_ptr<InPlaceStand>> made = parts_.options.in_place(parts_);
    if (made.ok()) in_place_ = std::move(made).value();
    if (!made.ok()) reason = made.error().message;
  }
  if (in_place_) {
    in_place_->run(
        request, [&](Kind kind, std::size_t item) { channel_.send(kind, encode(Calling{item})); },
        reply);
    return;
  }
  for (Measurement& m : reply->measurements) {
    m.outcome = Outcome::kWorkerLost;
    m.reason = reason;
  }
}

}  // namespace

void serve_runs(Channel& channel, const std::vector<te::Dag>& tasks, const target::Target& target,
                const MeasureOptions& options, const ExpectedOfTask& expected,
                volatile std::uint32_t* current) {
  watch_guards();
  // Code of a GPU makes no system calls, and its driver makes many.
  if (options.confine) confine_process(work_of(target));
  const bool limited = options.confine && work_of(target) == Work::kCode;
  RunWorker worker(channel, {tasks, target, options, expected, current});
  while (const std::optional<Frame> frame = channel.receive()) {
    RunRequest request;
    if (frame->kind != Kind::kRun || !decode(*frame, &request)) return;
    // Deadlines by the clock end a trial before this; it holds where nobody watches them.
    const double candidates = static_cast<double>(request.items.size());
    if (limited) {
      limit_cpu_time(options.threads * candidates * (kPrepareLimit + 2 * options.run_timeout_s));
    }
    RunReply reply;
    try {
      reply = worker.run(request);
    } catch (const std::exception& e) {  // no memory, or a defect
      reply.measurements.resize(request.items.size());
      for (std::size_t i = 0; i < request.items.size(); ++i) {
        Measurement& m = reply.measurements[i];
        m.id = request.items[i].job.trial.id;
        m.outcome = Outcome::kRunError;
        m.reason = e.what();
      }
    }
    if (!channel.send(Kind::kRan, encode(reply)) || reply.last) return;
  }
}

}  // namespace tessera::measure
