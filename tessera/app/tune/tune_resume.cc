// What a session takes over from the records of earlier ones.
#include <ctime>

#include "tessera/app/tune/replay_order.h"
#include "tessera/app/tune/tune_session.h"
#include "tessera/support/clock.h"
#include "tessera/support/hash.h"

namespace tessera::app {
namespace {

// Of the time for searching: within which records are read and learnt from.
constexpr double kResumeShare = 0.2;
// Records of one call of the models, and those that the cost model learns from at most: a fit of
// more takes longer than what it adds is worth.
constexpr std::size_t kReplayBatch = 512;
constexpr std::int64_t kMostTaught = 8192;
// Times are asked for now and then only.
constexpr std::size_t kReadBetween = 256;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Result<void> TuneSession::open(std::size_t task) {
  if (searches_->is_open(task)) return {};
  const Clock::time_point begin = Clock::now();
  const double cpu_s = cpu_seconds();
  if (!resume_until_s_)
    resume_until_s_ = elapsed_s() + kResumeShare * (search_until_s() - elapsed_s());
  TESSERA_DO(searches_->open(task));
  TESSERA_DO(resume(task));
  opening_cpu_s_ += cpu_seconds() - cpu_s;
  opening_wall_s_ += seconds_since(begin);
  return {};
}

std::int64_t TuneSession::earlier_of(std::size_t task) const {
  const bool open = searches_->is_open(task);
  return left_aside_[task] + (open ? searches_->task(task).replayed() : 0);
}

Result<std::vector<record::Record>> TuneSession::earlier_records(std::size_t task) const {
  std::vector<record::Record> out;
  std::size_t read = 0;
  const auto take = [&](const record::Record& r) {
    if (++read % kReadBetween == 0 && elapsed_s() > *resume_until_s_) return false;
    // Times with the constants in the cache and without are not times of the same thing, nor are
    // those where more was evicted.
    if (r.cold != cold_[task]) return true;
    if (in_place() && r.model != model_key_) return true;
    if (cold_[task] && r.evicted_bytes != options_.measure.evicted_bytes) return true;
    // A default whose outputs nobody compared is measured again where they are.
    if (r.unchecked && options_.measure.check_results && searches_->is_tuned(task)) return true;
    out.push_back(r);
    // Many are held at once: without what is not used.
    out.back().schedule.clear();
    out.back().samples_s.clear();
    return true;
  };
  TESSERA_DO(records_.visit_while(problem_.tasks[task].task.key, take));
  return out;
}

Result<void> TuneSession::resume(std::size_t task) {
  TESSERA_TRY(const std::vector<record::Record> records, earlier_records(task));
  std::vector<double> seconds;
  seconds.reserve(records.size());
  for (const record::Record& r : records) seconds.push_back(r.outcome == "ok" ? r.seconds : 0);
  std::size_t done = 0;
  for (const std::vector<std::size_t>& batch : replay_order(seconds, kReplayBatch)) {
    // The first holds the fastest and the newest.
    if (done > 0 && elapsed_s() > *resume_until_s_) break;
    std::vector<const record::Record*> part;
    part.reserve(batch.size());
    for (const std::size_t i : batch) part.push_back(&records[i]);
    replay(task, part);
    done += batch.size();
  }
  // They were trials, whatever they say.
  const auto left = static_cast<std::int64_t>(records.size() - done);
  left_aside_[task] = left;
  all_left_aside_ += left;
  earlier_ += left;
  trials_ += left;
  if (searches_->task(task).best_seconds() > 0) searches_->report(task, 0);
  searches_->stop_if_hopeless(task);
  return {};
}

void TuneSession::replay(std::size_t task, const std::vector<const record::Record*>& records) {
  const space::Space& space = searches_->space(task);
  search::TaskSearch& search = searches_->task(task);
  const decide::Candidate preferred = space.preferred();
  std::vector<search::TrialResult> known;
  for (const record::Record* r : records) {
    std::optional<search::TrialResult> trial = search.trial_of(*r);
    if (!trial) continue;
    // What a candidate means may have changed since.
    const Result<schedule::Schedule> steps = space.schedule(trial->candidate);
    if (!steps || to_hex(hash_bytes(schedule::to_text(*steps))) != r->schedule_digest) continue;
    trial->seconds = comparable(task, r->seconds, r->calibration_s, r->default_s);
    const bool timed = trial->seconds > 0 && trial->outcome == measure::Outcome::kOk;
    const bool is_default = trial->candidate == preferred;
    if (is_default && timed && !in_place() && r->id > default_record_[task]) {
      default_record_[task] = r->id;
      before_s_[task] = trial->seconds;
    }
    // Finals repeat candidates that have records of their own.
    if (r->policy == kFinalPolicy) continue;
    if (!timed && trial->outcome != measure::Outcome::kCensored) {
      note_failure(task, r->outcome, r->reason);
      if (is_default) default_failed_[task] = true;
    }
    known.push_back(std::move(*trial));
  }
  const auto count = std::ssize(known);
  const bool teach = taught_ + count <= kMostTaught;
  search.replay(known, teach);
  taught_ += teach ? count : 0;
  earlier_ += count;
  trials_ += count;
}

}  // namespace tessera::app
