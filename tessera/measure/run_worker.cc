#include "tessera/measure/run_worker.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <list>

#include "tessera/measure/calibration.h"
#include "tessera/measure/candidate.h"
#include "tessera/measure/confine.h"
#include "tessera/measure/sampler.h"
#include "tessera/measure/verdict.h"
#include "tessera/runtime/run_queue.h"
#include "tessera/runtime/timing.h"

namespace tessera::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAllTasksBytes = std::size_t{1} << 30;  // kept for tasks to come again
constexpr std::size_t kStoredBytes = std::size_t{256} << 20;  // of one task: packed constants
constexpr int kCalibrationRuns = 5;                           // before and again after a trial

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Pushes everything out of the caches that a candidate will touch, on every thread's core.
class CacheFlusher {
 public:
  CacheFlusher(const target::Target& target, runtime::ThreadPool& pool) : pool_(pool) {
    const std::int64_t cached = target.l3_bytes + target.l2_bytes * pool.threads();
    memory_.resize(static_cast<std::size_t>(std::max<std::int64_t>(2 * cached, 8 << 20)));
  }
  void flush() {
    pool_.parallel_for(
        [](void* self, std::int64_t begin, std::int64_t end, std::int32_t) {
          std::vector<char>& memory = static_cast<CacheFlusher*>(self)->memory_;
          for (std::int64_t pass = begin; pass < end; ++pass) {
            for (std::size_t i = 0; i < memory.size(); i += 64) {
              static_cast<volatile char*>(memory.data())[i];
            }
          }
        },
        this, pool_.threads());
  }

 private:
  runtime::ThreadPool& pool_;
  std::vector<char> memory_;
};

std::vector<runtime::Samples> time_warm(const std::vector<std::function<void()>>& calls,
                                        const runtime::TimingOptions& timing) {
  runtime::InterleavedTimer timer(timing);
  for (const std::function<void()>& call : calls) timer.add(call);
  return timer.run();
}

class RunWorker {
 public:
  RunWorker(Channel& channel, const std::vector<te::Dag>& tasks, const target::Target& target,
            const MeasureOptions& options, const ExpectedOfTask& expected,
            volatile std::uint32_t* current)
      : channel_(channel),
        tasks_(tasks),
        options_(options),
        expected_(expected),
        current_(current),
        pool_({.threads = options.threads, .pin = true}) {
    if (options.cold_caches) flusher_ = std::make_unique<CacheFlusher>(target, pool_);
    calibration_.run(4 * kCalibrationRuns);  // memory touched, clock rate up
  }

  RunReply run(const RunRequest& request);

 private:
  struct Entry {
    std::size_t task;
    std::unique_ptr<TaskData> data;
  };
  Result<TaskData*> data_of(std::size_t task);
  void announce(Kind kind, std::size_t item) {
    *current_ = static_cast<std::uint32_t>(item);
    channel_.send(kind, encode(Calling{item}));
  }
  // Null with outcome and reason in `m` when it fails.
  std::unique_ptr<Candidate> load_checked(const RunRequest& request, std::size_t item,
                                          Measurement* m);
  void time_alone(Candidate& candidate, const Trial& trial, Measurement* m, RunReply* reply);
  std::vector<runtime::Samples> time_cold(const std::vector<std::function<void()>>& calls,
                                          const runtime::TimingOptions& timing);
  void time_together(const std::vector<std::unique_ptr<Candidate>>& candidates, RunReply* reply);

  Channel& channel_;
  const std::vector<te::Dag>& tasks_;
  const MeasureOptions& options_;
  const ExpectedOfTask& expected_;
  volatile std::uint32_t* current_;
  runtime::ThreadPool pool_;
  CalibrationKernel calibration_;
  std::unique_ptr<CacheFlusher> flusher_;
  std::list<Entry> used_;  // latest first
};

Result<TaskData*> RunWorker::data_of(std::size_t task) {
  const auto found = std::ranges::find(used_, task, &Entry::task);
  if (found != used_.end()) {
    used_.splice(used_.begin(), used_, found);
    return used_.front().data.get();
  }
  TESSERA_TRY(std::unique_ptr<TaskData> made,
              TaskData::make(tasks_[task], options_.seed,
                             [&](const auto& inputs) { return expected_(task, inputs, pool_); }));
  used_.push_front({task, std::move(made)});
  return used_.front().data.get();
}

std::unique_ptr<Candidate> RunWorker::load_checked(const RunRequest& request, std::size_t item,
                                                   Measurement* m) {
  const RunItem& run_item = request.items[item];
  const std::size_t task = run_item.job.task;
  *current_ = static_cast<std::uint32_t>(item);
  const auto fail = [&](const Error& error) {
    m->outcome = Outcome::kRunError;
    m->reason = error.message;
    announce(Kind::kTiming, item);
    return nullptr;
  };
  Result<TaskData*> data = data_of(task);
  if (!data.ok()) return fail(data.error().with_context("reference"));
  auto candidate = Candidate::load(run_item, tasks_[task], **data, pool_, options_.hooks);
  if (!candidate.ok()) return fail(candidate.error());
  announce(Kind::kCalling, item);
  const bool right = (*candidate)->check(m);
  announce(Kind::kTiming, item);
  return right ? std::move(candidate).value() : nullptr;
}

void RunWorker::time_alone(Candidate& candidate, const Trial& trial, Measurement* m,
                           RunReply* reply) {
  SamplerOptions sampling;
  sampling.min_samples = options_.min_samples;
  sampling.max_samples = options_.max_samples;
  sampling.sample_s = options_.sample_s;
  sampling.limit_s = options_.trial_limit_s;
  sampling.incumbent_s = trial.incumbent_s;
  sampling.loser_factor = options_.loser_factor;
  sampling.full = trial.final;
  std::function<void()> before_call;
  if (flusher_) before_call = [this] { flusher_->flush(); };
  const double before_s = calibration_.run(kCalibrationRuns);
  const Sampled sampled = take_samples([&] { candidate.call(); }, before_call, sampling);
  m->calibration_s = (before_s + calibration_.run(kCalibrationRuns)) / 2;
  m->samples_s = sampled.samples_s;
  m->disturbed = sampled.disturbed;
  m->outcome = sampled.censored ? Outcome::kCensored : Outcome::kOk;
  reply->waiting_share =
      sampled.timed_s > 0 ? sampled.wait_s / (sampled.timed_s * options_.threads) : 0;
  if (!candidate.recheck(m)) m->samples_s.clear();
}

// One call a sample, after its data was pushed out.
std::vector<runtime::Samples> RunWorker::time_cold(const std::vector<std::function<void()>>& calls,
                                                   const runtime::TimingOptions& timing) {
  runtime::RunQueueClock run_queue;
  std::vector<std::vector<runtime::RawSample>> raw(calls.size());
  for (int round = 0; round < timing.samples; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      flusher_->flush();
      run_queue.elapsed_wait_ns();
      const Clock::time_point start = Clock::now();
      calls[i]();
      const double total_s = std::max(1e-3 * ms_since(start), 1e-9);
      raw[i].push_back(
          {.total_s = total_s, .wait_s = 1e-9 * static_cast<double>(run_queue.elapsed_wait_ns())});
    }
  }
  std::vector<runtime::Samples> samples;
  for (const auto& r : raw)
    samples.push_back(runtime::summarize(r, 1, run_queue.available(), timing));
  return samples;
}

void RunWorker::time_together(const std::vector<std::unique_ptr<Candidate>>& candidates,
                              RunReply* reply) {
  runtime::TimingOptions timing;
  timing.sample_s = std::max(options_.sample_s, 2e-3);
  timing.samples = 2 * options_.max_samples;
  timing.min_samples = options_.min_samples;
  timing.time_limit_s = 4 * options_.trial_limit_s;
  std::vector<std::size_t> timed;
  std::vector<std::function<void()>> calls;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i]) continue;
    timed.push_back(i);
    calls.emplace_back([this, i, raw = candidates[i].get()] {
      *current_ = static_cast<std::uint32_t>(i);
      raw->call();
    });
  }
  if (timed.empty()) return;
  const double before_s = calibration_.run(kCalibrationRuns);
  const std::vector<runtime::Samples> samples =
      flusher_ ? time_cold(calls, timing) : time_warm(calls, timing);
  const double calibration_s = (before_s + calibration_.run(kCalibrationRuns)) / 2;
  int clean = 0, dirty = 0;
  for (std::size_t k = 0; k < timed.size(); ++k) {
    Measurement& m = reply->measurements[timed[k]];
    m.samples_s = samples[k].call_s;
    m.calibration_s = calibration_s;
    m.disturbed = samples[k].checked && !samples[k].trusted;
    clean += samples[k].clean;
    dirty += samples[k].dirty;
  }
  reply->waiting_share = static_cast<double>(dirty) / std::max(1, clean + dirty);
}

RunReply RunWorker::run(const RunRequest& request) {
  const Clock::time_point start = Clock::now();
  RunReply reply;
  reply.measurements.resize(request.items.size());
  std::vector<std::unique_ptr<Candidate>> candidates(request.items.size());
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    Measurement& m = reply.measurements[i];
    m.id = request.items[i].job.trial.id;
    m.build_ms = request.items[i].built.build_ms;
    candidates[i] = load_checked(request, i, &m);
  }
  if (request.side_by_side) {
    time_together(candidates, &reply);
  } else if (!candidates.empty() && candidates[0]) {
    time_alone(*candidates[0], request.items[0].job.trial, reply.measurements.data(), &reply);
  }
  for (Measurement& m : reply.measurements) m.run_ms = ms_since(start);
  // Nothing refers to the buffers any more.
  candidates.clear();
  std::size_t kept = 0;
  for (auto entry = used_.begin(); entry != used_.end();) {
    entry->data->forget(kStoredBytes);
    kept += entry->data->bytes();
    entry = kept > kAllTasksBytes && entry != used_.begin() ? used_.erase(entry) : std::next(entry);
  }
  return reply;
}

}  // namespace

void serve_runs(Channel& channel, const std::vector<te::Dag>& tasks, const target::Target& target,
                const MeasureOptions& options, const ExpectedOfTask& expected,
                volatile std::uint32_t* current) {
  watch_guards();
  if (options.confine) confine_process();
  RunWorker worker(channel, tasks, target, options, expected, current);
  while (const std::optional<Frame> frame = channel.receive()) {
    RunRequest request;
    if (frame->kind != Kind::kRun || !decode(*frame, &request)) return;
    // Deadlines by the clock end a trial before this; it holds where nobody watches them.
    const double candidates = static_cast<double>(request.items.size());
    if (options.confine) {
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
    if (!channel.send(Kind::kRan, encode(reply))) return;
  }
}

}  // namespace tessera::measure
