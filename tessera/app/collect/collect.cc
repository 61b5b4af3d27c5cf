#include "tessera/app/collect/collect.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "tessera/app/collect/candidate_sampler.h"
#include "tessera/app/tune/trial_loop.h"
#include "tessera/backend/kernel/build_kernel.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/scheduling/lower/code_size.h"
#include "tessera/support/clock.h"
#include "tessera/support/hash.h"
#include "tessera/support/parallel.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

constexpr const char* kPolicy = "collect";
// Operations of a GPU candidate (lower::code_size) up to which each one is built. On an H200 the
// tenth with the most code takes a third of the time of all builders.
constexpr double kUsualCode = 500;
// Drawn at most for each one that a round measures: of spaces whose candidates all have much code,
// a round measures fewer, because builders wait while others are looked at.
constexpr std::int64_t kLookedAt = 2;

class Collection {
 public:
  Collection(const CollectOptions& options, const CollectCallbacks& callbacks)
      : options_(options),
        callbacks_(callbacks),
        exclusive_(options.measure.threads >= target::usable_cpus()),
        start_(Clock::now()) {
    // Candidates for as many cores as run them, as tuning draws them.
    options_.target = target::code_target(options.target, options.measure.threads);
  }

  Result<CollectResult> run() {
    TESSERA_DO(check());
    TESSERA_DO(choose_tasks());
    TESSERA_DO(start());
    TESSERA_DO(load_earlier());
    result_.prepared_s = elapsed_s();
    const Result<void> measured = measure_all();
    loop_->give_up(/*wait=*/!result_.stopped_by.empty());
    // Whatever ended it, what was measured is kept.
    records_.flush();
    const bool done = measured && records_.error().empty() && result_.stopped_by.empty();
    records_.end(done ? "done" : "interrupted");
    if (!measured) return measured.error();
    if (!records_.error().empty()) return Error{ErrorCode::kUnavailable, records_.error()};
    if (done) result_.stopped_by = "done";
    result_.elapsed_s = elapsed_s();
    result_.build_s = loop_->times().build;
    result_.run_s = loop_->times().run;
    return result_;
  }

 private:
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
    // Once nothing is left to draw, what was lost at the end leaves room for others.
    for (bool more = true; more;) {
      more = false;
      for (const std::size_t t : fewest_first()) {
        if (!result_.stopped_by.empty()) break;
        TESSERA_TRY(const bool added, submit_round(t));
        more = more || added;
        TESSERA_DO(collect_until(kept_waiting()));
      }
      if (!more) {
        const std::int64_t lost = result_.lost;
        TESSERA_DO(collect_until(0));
        more = result_.lost > lost;
      }
      more = more && result_.stopped_by.empty();
    }
    return {};
  }

  // A run that goes on where another one ended does not begin with the same tasks again.
  std::vector<std::size_t> fewest_first() const {
    std::vector<std::size_t> order(samplers_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return samplers_[a]->records() < samplers_[b]->records();
    });
    return order;
  }

  // So many trials wait while the next are drawn: builders do not run dry during a long round.
  // Where the measured code has every core, drawing would take time from it.
  std::size_t kept_waiting() const {
    if (exclusive_) return 0;
    return std::max(static_cast<std::size_t>(options_.round) / 2,
                    16 * static_cast<std::size_t>(target::usable_cpus()));
  }

  Result<void> choose_tasks() {
    SampleScope scope;
    scope.subjects = options_.subjects;
    scope.target = options_.target;
    scope.tasks = options_.tasks;
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

  // Workers are forked: before anything starts a thread.
  Result<void> start() {
    std::vector<measure::MeasuredTask> measured;
    std::vector<LoopTask> loop_tasks;
    std::vector<const task::Task*> known;
    for (const auto& s : samplers_) {
      measured.push_back({s->task().key, s->task().dag});
      loop_tasks.push_back({s->task().key});
      known.push_back(&s->task());
    }
    TESSERA_TRY(std::unique_ptr<measure::Measurer> measurer,
                start_workers(measured, options_.target, options_.measure));
    TESSERA_TRY(records_,
                TrialRecords::open({options_.database, options_.subjects, options_.target,
                                    options_.measure.threads, options_.seed, options_.command},
                                   known));
    loop_ = std::make_unique<TrialLoop>(std::move(measurer), std::move(loop_tasks), /*repeats=*/0,
                                        &records_,
                                        [this](const Attempt& a, const measure::Measurement& m,
                                               bool disturbed) { return take(a, m, disturbed); });
    return {};
  }

  Result<void> load_earlier() {
    for (const auto& s : samplers_) {
      TESSERA_DO(records_.visit(s->task().key, [&](const record::Record& r) {
        const Result<decide::Candidate> c = s->space().parse(r.candidate);
        if (r.cold || !c || !s->space().check(*c)) return;
        s->take(*c, r.seconds);
        ++result_.earlier;
      }));
      s->go_on();
    }
    return {};
  }

  // False: nothing is left to draw. True also where a round kept none of those it drew.
  Result<bool> submit_round(std::size_t t) {
    CandidateSampler& s = *samplers_[t];
    const std::int64_t n = std::min(options_.round, options_.per_task - s.records());
    if (n <= 0 || s.exhausted()) return false;
    const double start_s = elapsed_s();
    std::vector<Attempt> attempts;
    std::int64_t left = kLookedAt * n;
    while (std::ssize(attempts) < n && left > 0 && !s.exhausted()) {
      std::vector<Attempt> drawn;
      const std::int64_t wanted = std::min(left, n - std::ssize(attempts));
      left -= wanted;
      for (const decide::Candidate& c : s.draw(wanted, options_.uniform_share)) {
        TESSERA_TRY(schedule::Schedule steps, s.space().schedule(c));
        drawn.push_back(
            {t, c, std::move(steps), s.space().to_text(c), kPolicy, s.best_seconds(), false, 0});
      }
      keep_some(s, std::move(drawn), &attempts);
    }
    result_.draw_s += elapsed_s() - start_s;
    if (attempts.empty()) return !s.exhausted();
    loop_->submit(std::move(attempts));
    return true;
  }

  // Candidates of much code take the builders' time from the others: of those, fewer are measured.
  // The default always is.
  void keep_some(CandidateSampler& s, std::vector<Attempt> drawn, std::vector<Attempt>* kept) {
    std::vector<char> keep(drawn.size(), 1);
    if (options_.target.is_gpu()) {
      const decide::Candidate preferred = s.space().preferred();
      const auto look = [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          keep[i] = drawn[i].candidate == preferred || is_worth_building(s.task().dag, drawn[i]);
        }
      };
      Workers(target::usable_cpus()).parts(drawn.size(), 4, look);
    }
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      if (keep[i] != 0) {
        kept->push_back(std::move(drawn[i]));
      } else {
        s.lose();
      }
    }
  }

  bool is_worth_building(const te::Dag& dag, const Attempt& attempt) const {
    const Result<lower::Lowered> lowered =
        kernel::lower_kernel(dag, attempt.steps, options_.target);
    if (!lowered) return true;  // its record says why not
    Rng rng(hash_bytes(attempt.text));
    return rng.chance(kUsualCode / std::max(kUsualCode, lower::code_size(lowered->program)));
  }

  Result<void> collect_until(std::size_t left) {
    while (loop_->pending() > left) {
      if (callbacks_.interrupted && callbacks_.interrupted()) result_.stopped_by = "an interrupt";
      if (options_.budget_s > 0 && elapsed_s() > options_.budget_s) result_.stopped_by = "budget";
      if (!result_.stopped_by.empty()) return {};
      loop_->collect(0.25);
      if (const auto trouble = loop_->trouble())
        return Error{ErrorCode::kUnavailable, trouble->reason};
    }
    return {};
  }

  // The number of its record; none where it says nothing about the candidate.
  std::optional<std::int64_t> take(const Attempt& a, const measure::Measurement& m,
                                   bool disturbed) {
    CandidateSampler& s = *samplers_[a.task];
    const bool defect = m.outcome == measure::Outcome::kCompilerBug;
    if (defect) result_.bugs.push_back(m.reason);
    if (disturbed || defect || m.outcome == measure::Outcome::kWorkerLost) {
      s.lose();
      ++result_.lost;
      return std::nullopt;
    }
    const std::int64_t number = s.measured();
    s.take(a.candidate, measure::is_timed(m.outcome) ? m.seconds() : 0);
    ++result_.records;
    if (measure::is_timed(m.outcome)) ++result_.valid;
    if (callbacks_.progress) callbacks_.progress(progress(s));
    return number;
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

  double elapsed_s() const { return seconds_since(start_); }

  CollectOptions options_;
  const CollectCallbacks& callbacks_;
  bool exclusive_ = false;  // the measured code has every core
  Clock::time_point start_;
  std::vector<std::unique_ptr<CandidateSampler>> samplers_;
  TrialRecords records_;
  std::unique_ptr<TrialLoop> loop_;
  CollectResult result_;
};

}  // namespace

Result<CollectResult> collect(const CollectOptions& options, const CollectCallbacks& callbacks) {
  return Collection(options, callbacks).run();
}

}  // namespace tessera::app
