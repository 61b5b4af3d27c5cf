#include "tessera/driver/collect.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <unordered_set>

#include <fmt/ranges.h>

#include "tessera/record/database.h"
#include "tessera/space/space.h"
#include "tessera/support/hash.h"

namespace tessera::driver {
namespace {

using Clock = std::chrono::steady_clock;
using Seen = std::unordered_set<space::Candidate, space::CandidateHash>;

constexpr const char* kVersion = "0.1.0";
constexpr const char* kPolicy = "collect";
constexpr std::size_t kParents = 16;  // fastest candidates whose neighbours are drawn
constexpr int kTries = 64;            // for one candidate not seen before
constexpr int kMostLost = 16;         // trials in a row that lose their workers

struct Timed {
  space::Candidate candidate;
  double seconds = 0;
};

// One task: its space, what was seen, the fastest so far.
class Sampler {
 public:
  Sampler(const task::Task& task, space::Space space, std::uint64_t seed)
      : task_(task), space_(std::move(space)), rng_(seed) {}

  const task::Task& task() const { return task_; }
  const space::Space& space() const { return space_; }
  std::int64_t records() const { return static_cast<std::int64_t>(seen_.size()); }
  bool exhausted() const { return exhausted_; }
  double best_seconds() const { return best_.empty() ? 0 : best_.front().seconds; }

  void take(const space::Candidate& candidate, double seconds) {
    seen_.insert(candidate);
    if (seconds <= 0) return;
    const auto at = std::upper_bound(best_.begin(), best_.end(), seconds,
                                     [](double s, const Timed& t) { return s < t.seconds; });
    best_.insert(at, {candidate, seconds});
    if (best_.size() > kParents) best_.pop_back();
  }

  std::vector<space::Candidate> draw(std::int64_t n, double uniform_share) {
    std::vector<space::Candidate> out;
    if (seen_.empty()) add(space_.preferred(), &out);
    while (static_cast<std::int64_t>(out.size()) < n && !exhausted_) {
      bool found = false;
      for (int i = 0; i < kTries && !found; ++i) found = add(draw_one(uniform_share), &out);
      exhausted_ = !found;
    }
    return out;
  }

 private:
  bool add(std::optional<space::Candidate> c, std::vector<space::Candidate>* out) {
    if (!c) return false;
    space_.sketches()[static_cast<std::size_t>(c->sketch)]->settle(c->choice);
    if (!seen_.insert(*c).second) return false;
    out->push_back(*std::move(c));
    return true;
  }

  const space::Candidate& any_parent() {
    return best_[static_cast<std::size_t>(rng_.below(std::ssize(best_)))].candidate;
  }

  std::optional<space::Candidate> draw_one(double uniform_share) {
    if (rng_.uniform() < uniform_share) return space_.sample(rng_);
    space::Candidate at = space_.preferred();
    if (!best_.empty() && rng_.uniform() < 0.85) at = any_parent();
    if (best_.size() > 1 && rng_.uniform() < 0.25) {
      const space::Candidate& other = any_parent();
      if (other.sketch == at.sketch) at = space_.cross(at, other, rng_).value_or(at);
    }
    for (std::int64_t steps = 1 + rng_.below(3); steps > 0; --steps) {
      std::optional<space::Candidate> next = space_.mutate(at, rng_);
      if (!next) return std::nullopt;
      at = *std::move(next);
    }
    return at;
  }

  task::Task task_;
  space::Space space_;
  Rng rng_;
  Seen seen_;
  std::vector<Timed> best_;
  bool exhausted_ = false;
};

class Collection {
 public:
  Collection(const CollectOptions& options, const CollectCallbacks& callbacks)
      : options_(options),
        callbacks_(callbacks),
        target_text_(target::to_text(options.target)),
        start_(Clock::now()) {}

  Result<CollectResult> run() {
    TESSERA_DO(choose_tasks());
    std::vector<te::Dag> dags;
    for (const auto& s : samplers_) dags.push_back(s->task().dag);
    TESSERA_TRY(measurer_, measure::start_local_measurer(dags, options_.target, options_.measure));
    TESSERA_DO(open_database());
    for (bool more = true; more && result_.stopped_by.empty();) {
      more = false;
      for (std::size_t t = 0; t < samplers_.size() && result_.stopped_by.empty(); ++t) {
        TESSERA_TRY(const bool added, submit_round(t));
        more = more || added;
        TESSERA_DO(collect_until(static_cast<std::size_t>(options_.round) / 2));
      }
    }
    if (result_.stopped_by.empty()) TESSERA_DO(collect_until(0));
    measurer_->cancel();
    TESSERA_DO(flush());
    const bool done = result_.stopped_by.empty();
    if (done) result_.stopped_by = "done";
    TESSERA_DO(database_->end_session(session_, done ? "done" : "interrupted"));
    return result_;
  }

 private:
  struct Pending {
    std::size_t task = 0;
    space::Candidate candidate;
    std::string digest;
  };

  Result<void> choose_tasks() {
    TESSERA_TRY(const TuneProblem problem, make_tune_problem(options_.subjects, {}));
    std::size_t number = 0;
    for (const TuneTask& t : problem.tasks) {
      if (!wanted(t.algorithm)) {
        ++result_.skipped;
        continue;
      }
      Result<space::Space> space = space::make_space(t.task.dag, options_.target);
      if (!space) return space.error().with_context(fmt::format("task {}", t.task.name));
      if (space->size() < options_.least_points || t.task.flops > options_.most_flops) {
        ++result_.skipped;
        continue;
      }
      if (number++ % options_.shards != options_.shard) continue;
      const std::uint64_t seed = hash_bytes(fmt::format("{} {}", options_.seed, t.task.key));
      samplers_.push_back(std::make_unique<Sampler>(t.task, std::move(space).value(), seed));
    }
    result_.tasks = samplers_.size();
    return {};
  }

  bool wanted(const std::string& algorithm) const {
    const std::vector<std::string>& names = options_.algorithms;
    return algorithm.empty() || names.empty() ||
           std::find(names.begin(), names.end(), algorithm) != names.end();
  }

  Result<void> open_database() {
    TESSERA_TRY(record::Database opened, record::Database::open(options_.database));
    database_.emplace(std::move(opened));
    record::SessionRow row;
    std::vector<std::string> names;
    for (const TuneSubject& s : options_.subjects) names.push_back(s.name);
    row.model = fmt::format("{}", fmt::join(names, " "));
    row.target = target_text_;
    row.options = options_.command;
    row.version = kVersion;
    row.threads = options_.measure.threads;
    row.seed = options_.seed;
    row.started = std::time(nullptr);
    row.state = "running";
    TESSERA_TRY(session_, database_->begin_session(row));
    for (const auto& s : samplers_) {
      const task::Task& t = s->task();
      TESSERA_DO(database_->add_task({t.key, t.name, te::to_text(t.dag), t.flops, t.bytes}));
      record::Filter filter;
      filter.task = t.key;
      filter.target = target_text_;
      filter.threads = options_.measure.threads;
      TESSERA_DO(database_->visit(filter, [&](const record::Record& r) {
        const Result<space::Candidate> c = s->space().parse(r.candidate);
        if (c && s->space().check(*c)) {
          s->take(*c, r.seconds);
          ++result_.earlier;
        }
        return true;
      }));
    }
    return {};
  }

  // False: nothing is left to draw.
  Result<bool> submit_round(std::size_t t) {
    Sampler& s = *samplers_[t];
    const std::int64_t n = std::min(options_.round, options_.per_task - s.records());
    if (n <= 0 || s.exhausted()) return false;
    std::vector<measure::Trial> trials;
    for (const space::Candidate& c : s.draw(n, options_.uniform_share)) {
      TESSERA_TRY(const schedule::Schedule steps, s.space().schedule(c));
      measure::Trial trial;
      trial.id = next_id_++;
      trial.task = t;
      trial.schedule = schedule::to_text(steps);
      trial.incumbent_s = s.best_seconds();
      pending_[trial.id] = {t, c, to_hex(hash_bytes(trial.schedule))};
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
      if (!result_.stopped_by.empty()) return {};
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
    const bool lost = m.outcome == measure::Outcome::kWorkerLost;
    lost_in_a_row_ = lost ? lost_in_a_row_ + 1 : 0;
    if (lost_in_a_row_ >= kMostLost) {
      return make_error(ErrorCode::kUnavailable, "the workers that measure keep going away: {}",
                        m.reason);
    }
    if (lost) return {};
    Sampler& s = *samplers_[p.task];
    const bool timed = measure::is_timed(m.outcome);
    record::Record r;
    r.session = session_;
    r.task = s.task().key;
    r.target = target_text_;
    r.threads = options_.measure.threads;
    r.candidate = s.space().to_text(p.candidate);
    r.schedule_digest = p.digest;
    r.outcome = measure::to_text(m.outcome);
    r.reason = m.reason;
    r.samples_s = m.samples_s;
    r.seconds = timed ? m.seconds() : 0;
    r.calibration_s = m.calibration_s;
    r.build_ms = m.build_ms;
    r.policy = kPolicy;
    r.seed = options_.seed;
    r.trial = s.records();
    r.unix_time = std::time(nullptr);
    s.take(p.candidate, r.seconds);
    ++result_.records;
    if (timed) ++result_.valid;
    unsaved_.push_back(std::move(r));
    if (callbacks_.progress) callbacks_.progress(progress(s));
    return {};
  }

  CollectProgress progress(const Sampler& at) const {
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
    TESSERA_DO(database_->append(unsaved_));
    unsaved_.clear();
    return {};
  }

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  const CollectOptions& options_;
  const CollectCallbacks& callbacks_;
  std::string target_text_;
  Clock::time_point start_;
  std::vector<std::unique_ptr<Sampler>> samplers_;
  std::unique_ptr<measure::Measurer> measurer_;
  std::optional<record::Database> database_;
  std::int64_t session_ = 0;
  std::map<std::uint64_t, Pending> pending_;
  std::vector<record::Record> unsaved_;
  std::uint64_t next_id_ = 1;
  int lost_in_a_row_ = 0;
  double flushed_s_ = 0;
  CollectResult result_;
};

}  // namespace

Result<CollectResult> collect(const CollectOptions& options, const CollectCallbacks& callbacks) {
  return Collection(options, callbacks).run();
}

}  // namespace tessera::driver
