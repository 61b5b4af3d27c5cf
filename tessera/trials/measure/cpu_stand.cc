#include <algorithm>

#include "tessera/machine/runtime/run_queue.h"
#include "tessera/machine/runtime/timing.h"
#include "tessera/support/clock.h"
#include "tessera/trials/measure/calibration.h"
#include "tessera/trials/measure/cpu_candidate.h"
#include "tessera/trials/measure/recent_tasks.h"
#include "tessera/trials/measure/run_stand.h"
#include "tessera/trials/measure/sampler.h"

namespace tessera::measure {
namespace {

constexpr int kCalibrationRuns = 5;  // before and again after a trial

// Pushes everything out of the caches that a candidate will touch: each thread reads a part that is
// larger than the cache of its core, all of them more than the one they share.
class CacheFlusher {
 public:
  // `bytes`: 0 for more than the caches hold.
  CacheFlusher(const target::Target& target, runtime::ThreadPool& pool, std::int64_t bytes)
      : pool_(pool) {
    const std::int64_t cached = target.l3_bytes + target.l2_bytes * pool.threads();
    if (bytes == 0) bytes = std::max<std::int64_t>(2 * cached, 8 << 20);
    memory_.resize(static_cast<std::size_t>(bytes));
  }
  void flush() {
    pool_.parallel_for(
        [](void* self, std::int64_t begin, std::int64_t end, std::int32_t) {
          const auto* f = static_cast<CacheFlusher*>(self);
          const std::size_t part = f->memory_.size() / static_cast<std::size_t>(f->pool_.threads());
          const volatile char* memory = f->memory_.data();
          for (std::size_t i = static_cast<std::size_t>(begin) * part;
               i < static_cast<std::size_t>(end) * part; i += 64) {
            (void)memory[i];
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

class CpuStand final : public RunStand {
 public:
  explicit CpuStand(const StandParts& parts)
      : parts_(parts),
        pool_({.threads = parts.options.threads, .pin = true}),
        memory_(parts.target.l3_bytes > 0 ? parts.target.l3_bytes : parts.target.l2_bytes) {
    calibration_.run(4 * kCalibrationRuns);  // memory touched, clock rate up
    memory_.run();
  }

  Result<std::unique_ptr<LoadedCandidate>> load(const RunItem& item) override {
    if (item.job.cold_caches && !flusher_)
      flusher_ = std::make_unique<CacheFlusher>(parts_.target, pool_, parts_.options.evicted_bytes);
    Result<TaskData*> data = data_of(item.job.task);
    if (!data.ok()) return data.error().with_context("reference");
    TESSERA_TRY(
        std::unique_ptr<CpuCandidate> candidate,
        CpuCandidate::load(item, parts_.tasks[item.job.task], **data, pool_, parts_.options.hooks));
    return std::unique_ptr<LoadedCandidate>(std::move(candidate));
  }
  void time_alone(LoadedCandidate& loaded, const Job& job, Measurement* m,
                  RunReply* reply) override;
  void time_together(const std::vector<std::unique_ptr<LoadedCandidate>>& candidates,
                     bool cold_caches, RunReply* reply) override;
  void tidy() override { tasks_.tidy(); }

 private:
  Result<TaskData*> data_of(std::size_t task);
  // Constants are in memory, what the kernel before has just written is in the caches.
  void make_cold(CpuCandidate& candidate) {
    flusher_->flush();
    candidate.touch_variables();
  }
  std::vector<runtime::Samples> time_cold(const std::vector<std::function<void()>>& calls,
                                          const std::vector<CpuCandidate*>& candidates,
                                          const runtime::TimingOptions& timing);

  StandParts parts_;
  runtime::ThreadPool pool_;
  CalibrationKernel calibration_;
  MemoryProbe memory_;
  std::unique_ptr<CacheFlusher> flusher_;
  RecentTasks<TaskData> tasks_;
};

Result<TaskData*> CpuStand::data_of(std::size_t task) {
  if (TaskData* known = tasks_.find(task)) return known;
  const auto expected = [&](const auto& inputs) { return parts_.expected(task, inputs, pool_); };
  TESSERA_TRY(std::unique_ptr<TaskData> made,
              TaskData::make(parts_.tasks[task], parts_.options.seed, expected));
  return tasks_.add(task, std::move(made));
}

void CpuStand::time_alone(LoadedCandidate& loaded, const Job& job, Measurement* m,
                          RunReply* reply) {
  auto& candidate = static_cast<CpuCandidate&>(loaded);
  const SamplerOptions sampling = sampler_options(job.trial, parts_.options);
  std::function<void()> before_call;
  if (job.cold_caches) before_call = [&] { make_cold(candidate); };
  const double before_s = calibration_.run(kCalibrationRuns);
  const Sampled sampled = take_samples([&] { candidate.call(); }, before_call, sampling);
  m->calibration_s = (before_s + calibration_.run(kCalibrationRuns)) / 2;
  m->memory_s = memory_.run();
  m->samples_s = sampled.samples_s;
  m->disturbed = sampled.disturbed;
  m->outcome = sampled.censored ? Outcome::kCensored : Outcome::kOk;
  reply->waiting_share =
      sampled.timed_s > 0 ? sampled.wait_s / (sampled.timed_s * parts_.options.threads) : 0;
  if (!candidate.recheck(m)) m->samples_s.clear();
}

// One call a sample, after its data was pushed out.
std::vector<runtime::Samples> CpuStand::time_cold(const std::vector<std::function<void()>>& calls,
                                                  const std::vector<CpuCandidate*>& candidates,
                                                  const runtime::TimingOptions& timing) {
  runtime::RunQueueClock run_queue;
  std::vector<std::vector<runtime::RawSample>> raw(calls.size());
  for (int round = 0; round < timing.samples; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      make_cold(*candidates[i]);
      run_queue.elapsed_wait_ns();
      const Clock::time_point start = Clock::now();
      calls[i]();
      const double total_s = seconds_since(start);
      raw[i].push_back({.total_s = std::max(total_s, 1e-9),
                        .wait_s = 1e-9 * static_cast<double>(run_queue.elapsed_wait_ns())});
    }
  }
  std::vector<runtime::Samples> samples;
  samples.reserve(raw.size());
  for (const auto& r : raw)
    samples.push_back(runtime::summarize(r, 1, run_queue.available(), timing));
  return samples;
}

void CpuStand::time_together(const std::vector<std::unique_ptr<LoadedCandidate>>& candidates,
                             bool cold_caches, RunReply* reply) {
  const MeasureOptions& options = parts_.options;
  runtime::TimingOptions timing;
  timing.sample_s = std::max(options.sample_s, 2e-3);
  timing.samples = 2 * options.max_samples;
  timing.min_samples = options.min_samples;
  timing.time_limit_s = 4 * options.trial_limit_s;
  std::vector<std::size_t> timed;
  std::vector<CpuCandidate*> loaded;
  std::vector<std::function<void()>> calls;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i]) continue;
    timed.push_back(i);
    loaded.push_back(static_cast<CpuCandidate*>(candidates[i].get()));
    calls.emplace_back([this, i, raw = loaded.back()] {
      *parts_.current = static_cast<std::uint32_t>(i);
      raw->call();
    });
  }
  if (timed.empty()) return;
  const double before_s = calibration_.run(kCalibrationRuns);
  const std::vector<runtime::Samples> samples =
      cold_caches ? time_cold(calls, loaded, timing) : time_warm(calls, timing);
  const double calibration_s = (before_s + calibration_.run(kCalibrationRuns)) / 2;
  const double memory_s = memory_.run();
  int clean = 0, dirty = 0;
  for (std::size_t k = 0; k < timed.size(); ++k) {
    Measurement& m = reply->measurements[timed[k]];
    m.samples_s = samples[k].call_s;
    m.calibration_s = calibration_s;
    m.memory_s = memory_s;
    m.disturbed = samples[k].checked && !samples[k].trusted;
    clean += samples[k].clean;
    dirty += samples[k].dirty;
  }
  reply->waiting_share = static_cast<double>(dirty) / std::max(1, clean + dirty);
}

}  // namespace

std::unique_ptr<RunStand> make_cpu_stand(const StandParts& parts) {
  return std::make_unique<CpuStand>(parts);
}

}  // namespace tessera::measure
