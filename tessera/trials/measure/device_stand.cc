#include <algorithm>
#include <utility>

#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/fast_math.h"
#include "tessera/trials/measure/device_task.h"
#include "tessera/trials/measure/recent_tasks.h"
#include "tessera/trials/measure/run_stand.h"
#include "tessera/trials/measure/sampler.h"

namespace tessera::measure {
namespace {

constexpr int kReferenceThreads = 8;  // of the processor, at most
// The clock of a device is exact, and a graph of more launches costs more to make than to run: a
// sample takes a part of what it takes by the clock of this machine, and at most so many seconds.
constexpr double kOfSample = 0.3, kMostSample = 3e-4;
// Of the incumbent's time: what may win, within the noise.
constexpr double kNear = 1.1;

// Of inputs, outputs and packed constants, here and on the device. Rounds over many tasks come back
// to each of them, and making them again takes longer than timing a candidate.
std::size_t most_task_bytes() {
  constexpr std::size_t kMost = std::size_t{16} << 30;
  const auto memory = static_cast<std::size_t>(target::usable_memory());
  return memory == 0 ? std::size_t{1} << 30 : std::min(kMost, memory / 8);
}

runtime::Binary binary_of(const RunItem& item, const target::Target& target) {
  const Built& built = item.built;
  runtime::Binary out;
  out.kind = built.kind;
  out.target = target;
  out.bytes.assign(built.object.begin(), built.object.end());
  out.launches = built.launches;
  out.temporaries = built.temporaries;
  out.parameters = static_cast<int>(built.layouts.size());
  return out;
}

// What the stand has and its candidates use.
struct Shared {
  const MeasureOptions& options;
  std::unique_ptr<runtime::Device> device;
  runtime::DeviceBuffer flushed;  // more than the cache
  bool broken = false;
  std::vector<std::size_t> spoilt;  // tasks whose buffers a wrong candidate may have overwritten

  // Whatever fails once the device was opened may have left it useless.
  void fail(const Error& error, Measurement* m) {
    broken = true;
    m->outcome = Outcome::kRunError;
    m->reason = error.message;
    m->samples_s.clear();
  }
};

class DeviceCandidate final : public LoadedCandidate {
 public:
  DeviceCandidate(const RunItem& item, DeviceTask& task, Shared& shared)
      : item_(item), task_(task), shared_(shared) {}

  Result<void> load(const target::Target& target) {
    const std::vector<std::string>& layouts = item_.built.layouts;
    const std::vector<void*> outputs = task_.outputs();
    if (layouts.size() < outputs.size())
      return make_error(ErrorCode::kBuildFailed, "a program without its parameters");
    TESSERA_TRY(code_, shared_.device->load(binary_of(item_, target)));
    for (std::size_t i = 0; i + outputs.size() < layouts.size(); ++i) {
      TESSERA_TRY(void* at, task_.input(i, layouts[i]));
      params_.push_back(at);
    }
    params_.insert(params_.end(), outputs.begin(), outputs.end());
    return {};
  }

  bool check(Measurement* m) override {
    const auto run = [&]() -> Result<void> {
      TESSERA_DO(task_.clear_outputs());
      Result<void> done;
      const std::function<void()> call = [&] { done = launch(); };
      const WorkerHooks& hooks = shared_.options.hooks;
      if (hooks.call) {
        hooks.call(item_.job.trial, call, params_);
      } else {
        call();
      }
      return done;
    };
    if (const Result<void> done = run(); !done.ok()) return shared_.fail(done.error(), m), false;
    return inspect(m);
  }

  // What the outputs show after the latest calls.
  bool inspect(Measurement* m) {
    const Result<DeviceTask::Finding> finding = task_.inspect();
    if (!finding.ok()) return shared_.fail(finding.error(), m), false;
    if (finding->outcome == Outcome::kOk) return true;
    m->outcome = finding->outcome;
    m->reason = finding->reason;
    m->samples_s.clear();
    shared_.spoilt.push_back(item_.job.task);
    return false;
  }

  Result<double> seconds(int calls, bool cold) {
    if (calls != recorded_) {
      TESSERA_TRY(recording_, shared_.device->record(std::vector<runtime::Call>(
                                  static_cast<std::size_t>(calls), {code_.get(), params_})));
      recorded_ = calls;
    }
    // The device is busy when the clock starts: the way of the launch there does not count.
    if (cold) {
      runtime::DeviceBuffer& f = shared_.flushed;
      TESSERA_DO(shared_.device->fill(f.get(), 0, f.bytes()));
    } else if (calls > 1) {
      TESSERA_DO(shared_.device->replay(*recording_));
    }
    return shared_.device->time_replays(*recording_, 1);
  }

 private:
  Result<void> launch() {
    TESSERA_DO(shared_.device->launch(*code_, params_));
    return shared_.device->synchronise();
  }

  const RunItem& item_;
  DeviceTask& task_;
  Shared& shared_;
  std::unique_ptr<runtime::LoadedCode> code_;
  std::unique_ptr<runtime::Recording> recording_;  // of so many calls
  int recorded_ = 0;
  std::vector<void*> params_;
};

class DeviceStand final : public RunStand {
 public:
  explicit DeviceStand(const StandParts& parts) : parts_(parts), shared_{.options = parts.options} {
    Result<std::unique_ptr<runtime::Device>> opened = runtime::open_device(parts.target.kind);
    if (!opened.ok()) {
      why_none_ = opened.error().message;
    } else if (target::to_text((*opened)->target()) !=
               target::to_text(target::without_fast_math(parts.target))) {
      why_none_ = fmt::format("the device at hand is {}, not {}", (*opened)->target().name,
                              parts.target.name);
    } else {
      shared_.device = std::move(opened).value();
    }
  }

  Result<std::unique_ptr<LoadedCandidate>> load(const RunItem& item) override {
    if (!shared_.device) return Error{ErrorCode::kUnavailable, why_none_};
    TESSERA_TRY(DeviceTask * task, task_of(item.job.task));
    if (item.job.cold_caches && shared_.flushed.bytes() == 0) {
      const auto cache =
          static_cast<std::size_t>(std::max<std::int64_t>(parts_.target.l2_bytes, 1 << 20));
      TESSERA_TRY(shared_.flushed, runtime::DeviceBuffer::make(*shared_.device, 2 * cache));
    }
    auto candidate = std::make_unique<DeviceCandidate>(item, *task, shared_);
    TESSERA_DO(candidate->load(parts_.target));
    return std::unique_ptr<LoadedCandidate>(std::move(candidate));
  }

  void time_alone(LoadedCandidate& loaded, const Job& job, Measurement* m, RunReply*) override {
    auto& candidate = static_cast<DeviceCandidate&>(loaded);
    SampledCalls calls;
    calls.one_call = job.cold_caches;
    calls.on_device = true;
    calls.seconds = [&](int n) { return candidate.seconds(n, job.cold_caches); };
    SamplerOptions sampling = sampler_options(job.trial, parts_.options);
    sampling.sample_s = sample_s();
    const Result<Sampled> sampled = take_samples(calls, sampling);
    if (!sampled.ok()) return shared_.fail(sampled.error(), m);
    m->samples_s = sampled->samples_s;
    m->outcome = sampled->censored ? Outcome::kCensored : Outcome::kOk;
    // One that may win is looked at again: a race shows now and then only.
    const double best_s = job.trial.incumbent_s;
    if (best_s <= 0 || m->seconds() < kNear * best_s) candidate.inspect(m);
  }

  void time_together(const std::vector<std::unique_ptr<LoadedCandidate>>& candidates,
                     bool cold_caches, RunReply* reply) override;

  void tidy() override {
    for (const std::size_t task : std::exchange(shared_.spoilt, {})) tasks_.drop(task);
    if (std::exchange(full_, false)) tasks_.clear();
    tasks_.tidy();
  }
  bool usable() const override { return !shared_.broken; }

 private:
  double sample_s() const { return std::min(kOfSample * parts_.options.sample_s, kMostSample); }

  Result<DeviceTask*> task_of(std::size_t task) {
    if (DeviceTask* known = tasks_.find(task)) return known;
    const auto expected = [&](const std::vector<HostTensor>& inputs) {
      runtime::ThreadPool pool({.threads = std::min(kReferenceThreads, target::usable_cpus())});
      return parts_.expected(task, inputs, pool);
    };
    Result<std::unique_ptr<DeviceTask>> made =
        DeviceTask::make(parts_.tasks[task], *shared_.device, target::products_of(parts_.target),
                         parts_.options.seed, expected);
    if (!made.ok()) full_ = true;
    if (!made.ok()) return made.error().with_context("inputs and reference");
    return tasks_.add(task, std::move(made).value());
  }

  StandParts parts_;
  Shared shared_;
  std::string why_none_;
  bool full_ = false;  // the device may be, of tasks that are kept
  RecentTasks<DeviceTask> tasks_{most_task_bytes()};
};

void DeviceStand::time_together(const std::vector<std::unique_ptr<LoadedCandidate>>& candidates,
                                bool cold_caches, RunReply* reply) {
  struct Timed {
    std::size_t index;
    DeviceCandidate* candidate;
    int calls;
  };
  std::vector<Timed> timed;
  const auto seconds = [&](const Timed& t) -> double {
    *parts_.current = static_cast<std::uint32_t>(t.index);
    const Result<double> s = t.candidate->seconds(t.calls, cold_caches);
    if (s.ok()) return std::max(*s, 1e-9) / t.calls;
    shared_.fail(s.error(), &reply->measurements[t.index]);
    return 0;
  };
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i]) continue;
    Timed t{i, static_cast<DeviceCandidate*>(candidates[i].get()), 1};
    double once_s = seconds(t);
    if (!shared_.broken) once_s = std::min(once_s, seconds(t));
    if (shared_.broken) return;
    if (!cold_caches) t.calls = static_cast<int>(std::clamp(sample_s() / once_s, 1.0, 1000.0));
    timed.push_back(t);
  }
  const int rounds = 2 * parts_.options.max_samples;
  for (int round = 0; round < rounds; ++round) {
    for (const Timed& t : timed) {
      const double s = seconds(t);
      if (shared_.broken) return;
      reply->measurements[t.index].samples_s.push_back(s);
    }
  }
}

}  // namespace

std::unique_ptr<RunStand> make_device_stand(const StandParts& parts) {
  return std::make_unique<DeviceStand>(parts);
}

}  // namespace tessera::measure
