#include "tessera/app/collect/dataset_measure.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "tessera/app/collect/dataset_sample.h"
#include "tessera/app/tune/trial_loop.h"
#include "tessera/app/tune/trial_records.h"
#include "tessera/frontend/task/task.h"
#include "tessera/lang/te/canonical.h"
#include "tessera/machine/target/measured_as.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

constexpr const char* kMeasurePolicy = "measure";
// A group that is built while another one is timed.
constexpr std::size_t kWaiting = measure::kMostCompared;
constexpr int kMostLost = 3 * static_cast<int>(measure::kMostCompared);

class SampleMeasurement {
 public:
  SampleMeasurement(const MeasureSampleOptions& options,
                    const std::function<bool(const MeasureSampleProgress&)>& progress)
      : options_(options), callback_(progress), start_(Clock::now()) {}

  Result<MeasureSampleResult> run() {
    TESSERA_DO(read());
    TESSERA_DO(start());
    const Result<void> measured = measure_all();
    measurer_->cancel();
    records_.flush();
    const bool asked = measured && result_.stopped_by != "an interrupt";
    records_.end(asked ? result_.stopped_by : "interrupted");
    if (!measured) return measured.error();
    if (!records_.error().empty()) return Error{ErrorCode::kUnavailable, records_.error()};
    return result_;
  }

 private:
  Result<void> read() {
    TESSERA_TRY(manifest_, read_manifest(options_.folder));
    TESSERA_TRY(const target::Target drawn, target::target_from_text(manifest_.target));
    const int threads = target::measured_threads(options_.target, manifest_.threads);
    target_ = target::code_target(options_.target, threads);
    const std::string here = target::to_text(target_);
    if (drawn.kind != target_.kind ||
        (!options_.any_machine && target::to_text(target::code_target(drawn, threads)) != here)) {
      return make_error(ErrorCode::kInvalidArgument, "{} was drawn for {}, and this is {}",
                        options_.folder, manifest_.target, here);
    }
    std::map<std::string, std::size_t> index;
    for (const SampledTask& t : manifest_.tasks) {
      Result<te::Dag> dag = te::dag_from_text(t.definition);
      if (!dag.ok()) return dag.error().with_context("task " + t.name);
      index[t.key] = tasks_.size();
      tasks_.push_back({.key = t.key, .name = t.name, .dag = std::move(dag).value()});
    }
    candidates_.resize(tasks_.size());
    for (std::size_t shard = 0; shard < manifest_.shards; ++shard) {
      TESSERA_TRY(const std::vector<SampledCandidate> sample, read_sample(options_.folder, shard));
      for (const SampledCandidate& c : sample) {
        const auto found = index.find(c.task);
        if (found == index.end()) {
          return make_error(ErrorCode::kInvalidArgument, "shard {} has a task that is not in {}",
                            shard, "manifest.json");
        }
        candidates_[found->second].push_back(c);
      }
      progress_.candidates += std::ssize(sample);
    }
    result_.tasks = tasks_.size();
    return {};
  }

  Result<void> start() {
    std::vector<measure::MeasuredTask> measured;
    std::vector<const task::Task*> known;
    for (const task::Task& t : tasks_) {
      measured.push_back({t.key, t.dag});
      known.push_back(&t);
    }
    measure::MeasureOptions options = options_.measure;
    options.threads = target::measured_threads(target_, manifest_.threads);
    TESSERA_TRY(measurer_, start_workers(measured, target_, options));
    TESSERA_TRY(
        records_,
        TrialRecords::open(
            {options_.database, {}, target_, options.threads, manifest_.seed, options_.command},
            known));
    return {};
  }

  Result<void> measure_all() {
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      std::set<std::string> earlier;
      TESSERA_DO(records_.visit(tasks_[t].key, [&](const record::Record& r) {
        if (r.policy == kMeasurePolicy) earlier.insert(r.schedule);
      }));
      const std::vector<SampledCandidate>& all = candidates_[t];
      for (std::size_t first = 0; first < all.size(); first += measure::kMostCompared) {
        const std::size_t end = std::min(all.size(), first + measure::kMostCompared);
        TESSERA_DO(measure_group(t, first, end, earlier));
        TESSERA_DO(collect_until(kWaiting));
        if (!result_.stopped_by.empty()) return {};
      }
    }
    TESSERA_DO(collect_until(0));
    if (result_.stopped_by.empty()) result_.stopped_by = "done";
    return {};
  }

  Result<void> measure_group(std::size_t t, std::size_t first, std::size_t end,
                             const std::set<std::string>& earlier) {
    std::vector<measure::Trial> trials;
    std::int64_t known = 0;
    for (std::size_t i = first; i < end; ++i) {
      const SampledCandidate& c = candidates_[t][i];
      known += earlier.contains(c.schedule) ? 1 : 0;
      Result<schedule::Schedule> steps = schedule::schedule_from_text(c.schedule);
      if (!steps.ok()) return steps.error().with_context("task " + tasks_[t].name);
      const std::uint64_t id = pending_id_++;
      pending_[id] = {t, i};
      trials.push_back({.id = id, .task = tasks_[t].key, .steps = std::move(steps).value()});
    }
    if (known == std::ssize(trials)) {
      for (const measure::Trial& trial : trials) pending_.erase(trial.id);
      result_.earlier += known;
      progress_.done += known;
      return {};
    }
    measurer_->submit_together(std::move(trials));
    return {};
  }

  Result<void> collect_until(std::size_t left) {
    while (measurer_->pending() > left) {
      if (options_.budget_s > 0 && elapsed_s() > options_.budget_s) result_.stopped_by = "budget";
      if (!result_.stopped_by.empty()) return {};
      const std::vector<measure::Measurement> ended = measurer_->collect(0.25);
      for (const measure::Measurement& m : ended) TESSERA_DO(take(m));
      if (!ended.empty()) records_.flush();
      progress_.elapsed_s = elapsed_s();
      if (callback_ && !callback_(progress_)) result_.stopped_by = "an interrupt";
    }
    return {};
  }

  Result<void> take(const measure::Measurement& m) {
    const auto found = pending_.find(m.id);
    if (found == pending_.end()) return {};
    const auto [t, i] = found->second;
    pending_.erase(found);
    ++progress_.done;
    progress_.task = tasks_[t].name;
    const bool lost = m.outcome == measure::Outcome::kWorkerLost;
    lost_in_a_row_ = lost ? lost_in_a_row_ + 1 : 0;
    if (lost_in_a_row_ >= kMostLost) {
      return make_error(ErrorCode::kUnavailable, "workers keep going away: {}", m.reason);
    }
    if (lost) return {};
    const SampledCandidate& c = candidates_[t][i];
    record::Record r = record_of(m, c.schedule, measurer_->machine());
    r.task = tasks_[t].key;
    r.candidate = c.candidate;
    r.policy = kMeasurePolicy;
    r.trial = c.trial;
    records_.add(std::move(r));
    ++result_.records;
    result_.valid += measure::is_timed(m.outcome) ? 1 : 0;
    return {};
  }

  double elapsed_s() const { return seconds_since(start_); }

  struct Place {
    std::size_t task = 0, candidate = 0;
  };

  const MeasureSampleOptions& options_;
  const std::function<bool(const MeasureSampleProgress&)>& callback_;
  Clock::time_point start_;
  SampleManifest manifest_;
  target::Target target_;  // of the code
  std::vector<task::Task> tasks_;
  std::vector<std::vector<SampledCandidate>> candidates_;  // by task
  TrialRecords records_;
  std::unique_ptr<measure::Measurer> measurer_;
  std::map<std::uint64_t, Place> pending_;
  std::uint64_t pending_id_ = 1;
  int lost_in_a_row_ = 0;
  MeasureSampleProgress progress_;
  MeasureSampleResult result_;
};

}  // namespace

Result<MeasureSampleResult> measure_sample(
    const MeasureSampleOptions& options,
    const std::function<bool(const MeasureSampleProgress&)>& progress) {
  return SampleMeasurement(options, progress).run();
}

}  // namespace tessera::app
