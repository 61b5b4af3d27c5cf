#include "tessera/trials/measure/server.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <new>

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tessera/backend/kernel/random_inputs.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/clock.h"
#include "tessera/trials/measure/bug_report.h"
#include "tessera/trials/measure/build_worker.h"
#include "tessera/trials/measure/process.h"
#include "tessera/trials/measure/run_worker.h"
#include "tessera/trials/measure/worker_process.h"

namespace tessera::measure {
namespace {

// Of code that is kept for trials that come again.
constexpr std::size_t kMostKept = std::size_t{256} << 20;

}  // namespace

Server::Server(Channel owner, std::vector<te::Dag> tasks, target::Target target,
               MeasureOptions options)
    : owner_(std::move(owner)),
      tasks_(std::move(tasks)),
      target_(std::move(target)),
      options_(std::move(options)) {
  for (const te::Dag& dag : tasks_) references_.emplace_back(dag);
  void* page = mmap(nullptr, sizeof(std::uint32_t), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) _exit(1);  // the owner sees the end of the channel
  current_ = static_cast<std::uint32_t*>(page);
  const std::vector<int>& all = target::cpu_order();
  const auto taken = static_cast<std::size_t>(options_.threads);
  if (taken < all.size()) {
    spare_processors_.assign(all.begin() + static_cast<std::ptrdiff_t>(taken), all.end());
    use_processors(spare_processors_);
  }
  std::size_t count = static_cast<std::size_t>(std::max(0, options_.build_workers));
  if (count == 0) count = spare_processors_.empty() ? all.size() : spare_processors_.size();
  builders_.resize(count);
  runner_.runs = true;
  warm_up();
  if (target_.row().launches && options_.check_results) start_references();
}

// By processes beside the builders, which end by themselves: the one run worker would compute them
// one after the other, with the device idle.
void Server::start_references() {
  const std::size_t count = std::min(builders_.size(), tasks_.size());
  const int threads = static_cast<int>(std::max<std::size_t>(1, builders_.size() / count));
  for (SharedReference& r : references_) r.claim();
  // Each takes the next one: a task that takes long delays no other.
  void* page =
      mmap(nullptr, sizeof(std::size_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return release_references();
  auto* next = new (page) std::atomic<std::size_t>(0);
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto compute = [&](Channel&) {
      const target::Target cpu = target::code_target(target::host(), threads);
      runtime::ThreadPool pool({.threads = threads});
      for (std::size_t t = (*next)++; t < tasks_.size(); t = (*next)++) {
        const Result<Expected> expected =
            compute_reference(tasks_[t], kernel::random_inputs(tasks_[t], options_.seed), cpu, pool,
                              options_.reference_schedule);
        if (expected.ok()) {
          references_[t].keep(*expected);
        } else {
          references_[t].release();
        }
      }
    };
    Channel unused;
    any |= measure::fork_worker("tessera-ref", compute, &unused) != 0;
  }
  munmap(page, sizeof(std::size_t));
  if (!any) release_references();
}

void Server::release_references() {
  for (SharedReference& r : references_) r.release();
}

// LLVM's tables and passes are made once, here, instead of in every worker.
void Server::warm_up() {
  const Result<te::OpSpec> spec = te::parse_op_spec("matmul:M=4,N=8,K=4");
  if (!spec.ok()) return;
  const Result<te::Dag> dag = te::make_dag(*spec);
  if (!dag.ok()) return;
  const Result<schedule::Schedule> steps = options_.reference_schedule
                                               ? options_.reference_schedule(*dag, target_)
                                               : schedule::Schedule{};
  if (steps.ok()) build_candidate(*dag, *steps, target_);
}

void Server::run() {
  for (;;) {
    dispatch();
    poll_once();
    if (!owner_.open()) return;
    check_deadlines();
  }
}

void Server::fork_worker(Worker& worker) {
  const auto serve = [&](Channel& channel) { serve_as(channel, worker.runs); };
  worker.pid =
      measure::fork_worker(worker.runs ? "tessera-run" : "tessera-build", serve, &worker.channel);
  // No processes or descriptors are left; the owner sees the end of the channel.
  if (worker.pid == 0) _exit(1);
}

Result<Expected> Server::expected(std::size_t task, const std::vector<HostTensor>& inputs,
                                  runtime::ThreadPool& pool) {
  if (!options_.check_results) return Expected{};
  const target::Target& cpu =
      target_.row().launches ? target::code_target(target::host(), pool.threads()) : target_;
  return shared_expected(references_[task], tasks_[task], inputs, cpu, pool,
                         options_.reference_schedule);
}

void Server::serve_as(Channel& channel, bool runs) {
  if (!runs) return serve_builds(channel, tasks_, target_, options_.hooks, options_.confine);
  use_processors(target::allowed_cpus());
  serve_runs(
      channel, tasks_, target_, options_,
      [this](auto&&... arguments) { return expected(arguments...); }, current_);
}

int Server::bury(Worker& worker) {
  const int status = bury_worker(worker.pid);
  worker.pid = 0;
  worker.channel.close();
  worker.busy = false;
  worker.stopped = false;
  return status;
}

void Server::set_deadline(Worker& worker, double seconds) {
  worker.deadline = seconds_from_now(seconds);
}

void Server::dispatch() {
  if (!runner_.busy && !to_run_.empty()) {
    RunRequest request = std::move(to_run_.front());
    to_run_.pop_front();
    start_run(std::move(request));
  }
  // A build that started now would only be stopped again.
  if (spare_processors_.empty() && runner_.busy && runner_.phase != Worker::Phase::kPreparing)
    return;
  for (Worker& w : builders_) {
    if (to_build_.empty()) return;
    if (w.busy) continue;
    Job job = std::move(to_build_.front());
    to_build_.pop_front();
    start_build(w, std::move(job));
  }
}

void Server::start_build(Worker& worker, Job job) {
  if (worker.pid == 0) fork_worker(worker);
  worker.job = std::move(job);
  worker.busy = true;
  set_deadline(worker, options_.build_timeout_s);
  // A failure shows as the end of the channel when it is read.
  worker.channel.enqueue(Kind::kBuild, encode(worker.job));
}

void Server::start_run(RunRequest request) {
  if (runner_.pid == 0) fork_worker(runner_);
  runner_.request = std::move(request);
  runner_.busy = true;
  runner_.phase = Worker::Phase::kPreparing;
  *current_ = 0;
  set_deadline(runner_, kPrepareLimit);
  runner_.channel.enqueue(Kind::kRun, encode(runner_.request));
}

// Where the measured code uses every core, compilers stand still while it is timed.
void Server::stop_builders() {
  if (!spare_processors_.empty()) return;
  for (Worker& w : builders_) {
    if (w.pid == 0 || !w.busy || w.stopped) continue;
    kill(w.pid, SIGSTOP);
    w.stopped = true;
    w.stopped_at = Clock::now();
  }
}

void Server::continue_builders() {
  for (Worker& w : builders_) {
    if (!w.stopped) continue;
    w.stopped = false;
    w.deadline += Clock::now() - w.stopped_at;
    kill(w.pid, SIGCONT);
  }
}

int Server::poll_timeout_ms() const {
  Clock::time_point first = Clock::time_point::max();
  for (const Worker& w : builders_) {
    if (w.busy && !w.stopped) first = std::min(first, w.deadline);
  }
  if (runner_.busy) first = std::min(first, runner_.deadline);
  if (first == Clock::time_point::max()) return -1;
  const double ms = 1e3 * seconds_until(first);
  return static_cast<int>(std::clamp(ms + 1, 0.0, 1e6));
}

void Server::poll_once() {
  std::vector<pollfd> fds;
  std::vector<Worker*> workers;  // of fds[1...]
  const auto add = [&](const Channel& c) {
    const int events = POLLIN | (c.wants_to_write() ? POLLOUT : 0);
    fds.push_back({c.fd(), static_cast<short>(events), 0});
  };
  add(owner_);
  for (Worker& w : builders_) {
    if (w.pid == 0) continue;
    workers.push_back(&w);
    add(w.channel);
  }
  if (runner_.pid != 0) {
    workers.push_back(&runner_);
    add(runner_.channel);
  }
  if (poll(fds.data(), fds.size(), poll_timeout_ms()) <= 0) return;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    Worker& w = *workers[i];
    const short events = fds[i + 1].revents;
    if ((events & POLLOUT) != 0) w.channel.flush();
    if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    if (w.runs) {
      read_runner();
    } else {
      read_builder(w);
    }
  }
  if ((fds[0].revents & POLLOUT) != 0) owner_.flush();
  if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !read_owner()) owner_.close();
}

bool Server::read_owner() {
  const bool alive = owner_.fill();
  while (const std::optional<Frame> frame = owner_.next()) {
    Cancel request;
    Job job;
    if (frame->kind == Kind::kCancel && decode(*frame, &request)) {
      cancel(request.before);
    } else if (frame->kind == Kind::kSubmit && decode(*frame, &job)) {
      if (job.group != 0) {
        groups_[job.group].wanted = job.group_size;
        const auto known = kept_.find({job.task, schedule::to_text(job.trial.steps)});
        if (job.trial.in_place && known != kept_.end()) {
          on_built(job, known->second);
          continue;
        }
        // Who compares waits for it; of batches in place the next is built while one runs.
        const bool waited_for = !job.trial.in_place;
        to_build_.insert(waited_for ? to_build_.begin() : to_build_.end(), std::move(job));
      } else {
        to_build_.push_back(std::move(job));
      }
    } else {
      return false;
    }
  }
  return alive;
}

void Server::read_builder(Worker& worker) {
  const bool alive = worker.channel.fill();
  const std::optional<Frame> frame = worker.channel.next();
  Built built;
  if (frame && worker.busy && frame->kind == Kind::kBuilt && decode(*frame, &built)) {
    worker.busy = false;
    on_built(worker.job, std::move(built));
  }
  if (alive) return;
  const bool was_busy = worker.busy;
  const int status = bury(worker);
  if (was_busy) on_builder_death(worker, status);
}

void Server::read_runner() {
  const bool alive = runner_.channel.fill();
  while (const std::optional<Frame> frame = runner_.channel.next()) {
    RunReply reply;
    if (frame->kind == Kind::kCalling || frame->kind == Kind::kTiming) {
      on_announced(*frame);
    } else if (frame->kind == Kind::kRan && runner_.busy && decode(*frame, &reply)) {
      on_ran(reply);
    }
  }
  if (alive || runner_.pid == 0) return;
  const bool was_busy = runner_.busy;
  const int status = bury(runner_);
  if (was_busy) on_runner_death(status, /*timed_out=*/false);
}

void Server::on_announced(const Frame& frame) {
  Calling calling;
  if (!runner_.busy || !decode(frame, &calling)) return;
  if (calling.item >= runner_.request.items.size()) return;
  const Trial& trial = runner_.request.items[calling.item].job.trial;
  if (runner_.request.in_place && frame.kind == Kind::kTiming) {
    runner_.phase = Worker::Phase::kTiming;
    set_deadline(runner_, options_.run_timeout_s);
    stop_builders();
    return;
  }
  if (frame.kind == Kind::kCalling) {
    runner_.phase = Worker::Phase::kCalling;
    set_deadline(runner_, call_limit_s(trial, target_, options_));
    stop_builders();
    return;
  }
  const bool last = calling.item + 1 == runner_.request.items.size();
  const double candidates = static_cast<double>(runner_.request.items.size());
  runner_.phase = last ? Worker::Phase::kTiming : Worker::Phase::kPreparing;
  set_deadline(runner_, last ? options_.run_timeout_s * candidates : kPrepareLimit);
}

void Server::on_ran(const RunReply& reply) {
  runner_.busy = false;
  continue_builders();
  RunRequest request = std::move(runner_.request);
  if (reply.last) bury(runner_);
  if (reply.damaged) {
    blame_one_in_place(std::move(request), kNoItem,
                       {Outcome::kOutOfBounds, "changed memory of the model that is not its own"});
    return;
  }
  for (std::size_t i = 0; i < request.items.size() && i < reply.measurements.size(); ++i)
    report(request.items[i].job, reply.measurements[i], reply.waiting_share);
}

// Damage may show in the code of another one: only who fails alone is to blame, and others are not
// lost with it.
void Server::blame_one_in_place(RunRequest request, std::uint32_t current, const Verdict& verdict) {
  if (cancelled(request.items[0].job)) return;
  if (request.items.size() == 1) {
    fail(request.items[0].job, verdict.outcome, verdict.reason, request.items[0].built.build_ms);
    return;
  }
  // Whose code ran when it happened goes first; where nobody's did, one half of them does.
  const bool known = current < request.items.size();
  const auto first = request.items.begin() + (known ? static_cast<std::ptrdiff_t>(current) : 0);
  const auto last = known ? first + 1 : first + std::ssize(request.items) / 2;
  RunRequest suspects = request;
  suspects.items.assign(first, last);
  request.items.erase(first, last);
  to_run_.push_front(std::move(request));
  to_run_.push_front(std::move(suspects));
}

void Server::check_deadlines() {
  const Clock::time_point now = Clock::now();
  for (Worker& w : builders_) {
    if (!w.busy || w.stopped || now < w.deadline) continue;
    bury(w);
    fail(w.job, Outcome::kBuildTimeout,
         fmt::format("not built within {} s", options_.build_timeout_s));
    settle_group(w.job, nullptr);
  }
  if (!runner_.busy || now < runner_.deadline) return;
  on_runner_death(bury(runner_), /*timed_out=*/true);
}

void Server::on_built(const Job& job, Built built) {
  losses_.erase(job.number);  // those of its build say nothing about its run
  if (built.defect) {
    fail_by_defect(job, built.error);
    settle_group(job, nullptr);
  } else if (!built.error.empty()) {
    fail(job, Outcome::kBuildError, built.error, built.build_ms);
    settle_group(job, nullptr);
  } else if (job.group != 0) {
    if (job.trial.in_place) keep_built(job, built);
    settle_group(job, &built);
  } else if (!cancelled(job)) {
    RunRequest request;
    request.items.push_back({job, std::move(built)});
    request.in_place = job.trial.in_place;
    to_run_.push_back(std::move(request));
  }
}

void Server::keep_built(const Job& job, const Built& built) {
  if (kept_bytes_ + built.object.size() > kMostKept) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  const auto [at, is_new] =
      kept_.try_emplace({job.task, schedule::to_text(job.trial.steps)}, built);
  if (!is_new) return;
  at->second.build_ms = 0;  // when it comes again
  kept_bytes_ += built.object.size();
}

void Server::on_builder_death(Worker& worker, int status) {
  const Job job = worker.job;
  if (lost_to_others(status)) {
    if (try_again(job)) {
      to_build_.push_front(job);
      return;
    }
    fail(job, Outcome::kWorkerLost, fmt::format("build worker ended by {}", describe(status)));
  } else {
    fail_by_defect(job, "ended by " + describe(status));
  }
  settle_group(job, nullptr);
}

void Server::on_runner_death(int status, bool timed_out) {
  continue_builders();
  RunRequest request = std::move(runner_.request);
  const bool preparing = runner_.phase == Worker::Phase::kPreparing;
  const Verdict verdict = run_verdict(status, timed_out, preparing);
  const bool lost = lost_to_others(status) && !timed_out;
  if (request.in_place && !lost) {
    blame_one_in_place(std::move(request), *current_, verdict);
    return;
  }
  const std::size_t culprit = std::min<std::size_t>(*current_, request.items.size() - 1);
  const Job job = request.items[culprit].job;
  const double build_ms = request.items[culprit].built.build_ms;
  if (lost && try_again(job)) {
    to_run_.push_front(std::move(request));
    return;
  }
  fail(job, verdict.outcome, verdict.reason, build_ms);
  request.items.erase(request.items.begin() + static_cast<std::ptrdiff_t>(culprit));
  if (!request.items.empty()) to_run_.push_front(std::move(request));
}

void Server::settle_group(const Job& job, const Built* built) {
  const auto found = groups_.find(job.group);
  if (job.group == 0 || found == groups_.end()) return;
  Group& group = found->second;
  if (built != nullptr) group.built.push_back({job, *built});
  if (++group.done < group.wanted) return;
  RunRequest request;
  request.items = std::move(group.built);
  request.in_place = job.trial.in_place;
  request.side_by_side = !request.in_place;
  groups_.erase(found);
  const auto next = request.in_place ? to_run_.end() : to_run_.begin();
  if (!request.items.empty()) to_run_.insert(next, std::move(request));
}

bool Server::try_again(const Job& job) { return !cancelled(job) && ++losses_[job.number] <= 1; }

void Server::cancel(std::uint64_t before) {
  cancelled_before_ = std::max(cancelled_before_, before);
  std::erase_if(to_build_, [&](const Job& j) { return cancelled(j); });
  std::erase_if(to_run_, [&](const RunRequest& r) { return cancelled(r.items[0].job); });
  // What of them is being built right now must not be run: others would wait for it.
  std::erase_if(groups_, [&](const auto& group) { return group.first < cancelled_before_; });
  losses_.clear();
}

void Server::fail(const Job& job, Outcome outcome, const std::string& reason, double build_ms) {
  Measurement m;
  m.id = job.trial.id;
  m.outcome = outcome;
  m.reason = reason;
  m.build_ms = build_ms;
  report(job, std::move(m), -1);
}

void Server::fail_by_defect(const Job& job, const std::string& what) {
  fail(job, Outcome::kCompilerBug,
       report_bug(tasks_[job.task], job.trial.steps, target_, what, options_.bug_folder));
}

void Server::report(const Job& job, Measurement measurement, double waiting_share) {
  losses_.erase(job.number);
  if (cancelled(job)) return;
  owner_.enqueue(Kind::kMeasured,
                 encode(Measured{job.number, std::move(measurement), waiting_share}));
}

}  // namespace tessera::measure
