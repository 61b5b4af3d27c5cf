#include "tessera/driver/learn/collect.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include <fmt/ranges.h>

#include "tessera/driver/learn/candidate_sampler.h"
#include "tessera/driver/tune/tune_database.h"
#include "tessera/record/record_store.h"
#include "tessera/target/cpus.h"

namespace tessera::driver {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kPolicy = "collect";
constexpr double kLastTrialSeconds = 1;  // waited for the trial that runs when all ends
constexpr int kMostLost = 16;            // trials in a row that lose their workers
constexpr int kMostDisturbed = 256;      // trials in a row that shared their core

class Collection {
 public:
  Collection(const CollectOptions& options, const CollectCallbacks& callbacks)
      : options_(options),
        callbacks_(callbacks),
        exclusive_(options.measure.threads >= target::usable_cpus()),
        start_(Clock::now()) {
    // Candidates for as many cores as run them, as tuning draws them.
    options_.target = target::code_target(options.target, options.measure.threads);
    target_text_ = target::to_text(options_.target);
  }

  Result<CollectResult> run() {
    TESSERA_DO(check());
    TESSERA_DO(choose_tasks());
    std::vector<measure::MeasuredTask> tasks;
    for (const auto& s : samplers_) tasks.push_back({s->task().key, s->task().dag});
    TESSERA_TRY(measurer_, measure::start_local_measurer(tasks, options_.target, options_.measure));
    TESSERA_DO(open());
    const Result<void> measured = measure_all();
    measurer_->cancel();
    // Whatever ended it, what was measured is kept.
    const Result<void> flushed = flush();
    const bool done = measured && flushed && result_.stopped_by.empty();
    const Result<void> ended = store_->end_session(session_, done ? "done" : "interrupted");
    for (const Result<void>* step : {&measured, &flushed, &ended}) {
      if (!*step) return step->error();
    }
    if (done) result_.stopped_by = "done";
    return result_;
  }

 private:
  struct Pending {
    std::size_t task = 0;
    space::Candidate candidate;
    std::string schedule;
  };

  Result<void> check() const {
    TESSERA_DO(check_numbers(options_.per_task, options_.uniform_share, options_.measure.threads));
    if (options_.round < 1) {
      return make_error(ErrorCode::kInvalidArgument, "rounds of {} candidates: at least 1",
                        options_.round);
    }
    if (!(options_.budget_s >= 0)) {
      return make_error(ErrorCode::kInvalidArgument, "a budget of {} seconds", options_.budget_s);
    }
    return {};
  }

  Result<void> measure_all() {
    TESSERA_DO(load_earlier());
    // Once nothing is left to draw, what was lost at the end leaves room for others.
    for (bool more = true; more;) {
      more = false;
      for (std::size_t t = 0; t < samplers_.size() && result_.stopped_by.empty(); ++t) {
        TESSERA_TRY(const bool added, submit_round(t));
        more = more || added;
        // Drawing would take time from what is measured where there is no core left for it.
        TESSERA_DO(collect_until(exclusive_ ? 0 : static_cast<std::size_t>(options_.round) / 2));
      }
      if (!more) {
        const std::int64_t lost = lost_;
        TESSERA_DO(collect_until(0));
        more = lost_ > lost;
      }
      more = more && result_.stopped_by.empty();
    }
    return {};
  }

  Result<void> choose_tasks() {
    SampleScope scope;
    scope.subjects = options_.subjects;
    scope.target = options_.target;
    scope.least_points = options_.least_points;
    scope.most_flops = options_.most_flops;
    scope.algorithms = options_.algorithms;
    scope.shard = options_.shard;
    scope.shards = options_.shards;
    scope.seed = options_.seed;
    TESSERA_TRY(Samplers chosen, make_samplers(scope));
    samplers_ = std::move(chosen.samplers);
    result_.skipped = chosen.skipped;
    result_.tasks = samplers_.size();
    return {};
  }

  Result<void> open() {
    record::SessionRow row;
    row.target = target_text_;
    row.options = options_.command;
    row.threads = options_.measure.threads;
    row.seed = options_.seed;
    TESSERA_TRY(OpenedStore opened,
                open_database(options_.database, options_.subjects, std::move(row)));
    store_ = std::move(opened.store);
    session_ = opened.session;
    return {};
  }

  Result<void> load_earlier() {
    TESSERA_TRY(const std::vector<std::string> targets,
                targets_of_machine(*store_, options_.target));
    for (const auto& s : samplers_) {
      const task::Task& t = s->task();
      TESSERA_DO(store_->add_task({t.key, t.name, te::to_text(t.dag), t.flops, t.bytes}));
      record::Filter filter;
      filter.task = t.key;
      filter.targets = targets;
      filter.threads = options_.measure.threads;
      TESSERA_DO(store_->visit(filter, [&](const record::Record& r) {
        const Result<space::Candidate> c = s->space().parse(r.candidate);
        if (c && s->space().check(*c)) {
          s->take(*c, r.seconds);
          ++result_.earlier;
        }
        return true;
      }));
      s->go_on();
    }
    return {};
  }

  // False: nothing is left to draw.
  Result<bool> submit_round(std::size_t t) {
    CandidateSampler& s = *samplers_[t];
    const std::int64_t n = std::min(options_.round, options_.per_task - s.records());
    if (n <= 0 || s.exhausted()) return false;
    std::vector<measure::Trial> trials;
    for (const space::Candidate& c : s.draw(n, options_.uniform_share)) {
      TESSERA_TRY(const schedule::Schedule steps, s.space().schedule(c));
      measure::Trial trial;
      trial.id = next_id_++;
      trial.task = s.task().key;
      trial.steps = steps;
      trial.incumbent_s = s.best_seconds();
      pending_[trial.id] = {t, c, schedule::to_text(steps)};
      trials.push_back(std::move(trial));
    }
    if (trials.empty()) return false;
    measurer_->submit(std::move(trials));
    return true;
  }

  Result<void> collect_until(std::size_t left) {
    while (measurer_->pending() > left) {
      if (callbacks_.interrupted && callbacks_.interrupted()) result_.stopped_by = "an interrupt";
      if (options_.budget_s > 0 && elapsed_s() > options_.budget_s) result_.stopped_by = "budget";
      if (!result_.stopped_by.empty()) {
        // The trial that is running is not lost.
        for (const measure::Measurement& m : measurer_->collect(kLastTrialSeconds))
          TESSERA_DO(take(m));
        return {};
      }
      for (const measure::Measurement& m : measurer_->collect(0.25)) TESSERA_DO(take(m));
      if (elapsed_s() - flushed_s_ > 2) TESSERA_DO(flush());
    }
    return {};
  }

  Result<void> take(const measure::Measurement& m) {
    const auto it = pending_.find(m.id);
    if (it == pending_.end()) return {};
    const Pending p = std::move(it->second);
    pending_.erase(it);
    const bool worker_lost = m.outcome == measure::Outcome::kWorkerLost;
    lost_in_a_row_ = worker_lost ? lost_in_a_row_ + 1 : 0;
    // A time shared with other work says nothing about the candidate.
    const bool disturbed = measure::is_timed(m.outcome) && m.disturbed;
    disturbed_in_a_row_ = disturbed ? disturbed_in_a_row_ + 1 : 0;
    if (disturbed_in_a_row_ >= kMostDisturbed) {
      return make_error(ErrorCode::kUnavailable,
                        "other work takes the cores from what is measured: {} times in a row",
                        disturbed_in_a_row_);
    }
    const bool defect = m.outcome == measure::Outcome::kCompilerBug;
    if (defect) result_.bugs.push_back(m.reason);
    const bool lost = worker_lost || disturbed || defect;
    if (lost_in_a_row_ >= kMostLost) {
      return make_error(ErrorCode::kUnavailable, "the workers that measure keep going away: {}",
                        m.reason);
    }
    CandidateSampler& s = *samplers_[p.task];
    if (lost) {
      s.lose();
      ++lost_;
      return {};
    }
    record::Record r = record_of(m, p.schedule, measurer_->machine());
    r.session = session_;
    r.task = s.task().key;
    r.target = target_text_;
    r.threads = options_.measure.threads;
    r.candidate = s.space().to_text(p.candidate);
    r.policy = kPolicy;
    r.seed = options_.seed;
    r.trial = s.measured();
    s.take(p.candidate, r.seconds);
    ++result_.records;
    if (measure::is_timed(m.outcome)) ++result_.valid;
    unsaved_.push_back(std::move(r));
    if (callbacks_.progress) callbacks_.progress(progress(s));
    return {};
  }

  CollectProgress progress(const CandidateSampler& at) const {
    CollectProgress p;
    p.task = at.task().name;
    p.tasks = samplers_.size();
    for (const auto& s : samplers_) {
      const bool complete = s->exhausted() || s->records() >= options_.per_task;
      p.complete += complete ? 1 : 0;
      p.wanted += complete ? s->records() : options_.per_task;
    }
    p.records = result_.records;
    p.valid = result_.valid;
    p.elapsed_s = elapsed_s();
    return p;
  }

  Result<void> flush() {
    flushed_s_ = elapsed_s();
    if (unsaved_.empty()) return {};
    TESSERA_DO(store_->append(unsaved_));
    unsaved_.clear();
    return {};
  }

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  CollectOptions options_;
  const CollectCallbacks& callbacks_;
  std::string target_text_;
  bool exclusive_ = false;  // the measured code has every core
  Clock::time_point start_;
  std::vector<std::unique_ptr<CandidateSampler>> samplers_;
  std::unique_ptr<measure::Measurer> measurer_;
  std::unique_ptr<record::RecordStore> store_;
  std::int64_t session_ = 0;
  std::map<std::uint64_t, Pending> pending_;
  std::vector<record::Record> unsaved_;
  std::uint64_t next_id_ = 1;
  std::int64_t lost_ = 0;
  int lost_in_a_row_ = 0, disturbed_in_a_row_ = 0;
  double flushed_s_ = 0;
  CollectResult result_;
};

}  // namespace

Result<CollectResult> collect(const CollectOptions& options, const CollectCallbacks& callbacks) {
  return Collection(options, callbacks).run();
}

}  // namespace tessera::driver
