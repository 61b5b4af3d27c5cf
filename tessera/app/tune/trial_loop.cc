#include "tessera/app/tune/trial_loop.h"

#include <algorithm>
#include <utility>

#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

// Trials in a row that lose their workers: nothing can be measured any more.
constexpr std::int64_t kMostLost = 16;
// ... or that share their cores with other work.
constexpr std::int64_t kMostDisturbed = 256;
// Waited for the trial that runs when all ends.
constexpr double kLastTrialSeconds = 1;
constexpr double kFlushSeconds = 1;

bool is_disturbed(const measure::Measurement& m) {
  return measure::is_timed(m.outcome) && m.disturbed;
}

}  // namespace

Result<std::unique_ptr<measure::Measurer>> start_workers(std::vector<measure::MeasuredTask> tasks,
                                                         const target::Target& target,
                                                         measure::MeasureOptions options) {
  options.reference_schedule = [](const te::Dag& dag, const target::Target& machine) {
    return space::default_schedule(dag, machine);
  };
  return measure::start_local_measurer(std::move(tasks), target, options);
}

TrialLoop::TrialLoop(std::unique_ptr<measure::Measurer> measurer, std::vector<LoopTask> tasks,
                     int repeats, TrialRecords* records, OnEnd on_end)
    : measurer_(std::move(measurer)),
      tasks_(std::move(tasks)),
      repeats_(repeats),
      records_(records),
      on_end_(std::move(on_end)) {}

measure::Trial TrialLoop::trial_of(const Attempt& attempt, std::uint64_t id) const {
  return {id,
          tasks_[attempt.task].key,
          attempt.steps,
          attempt.incumbent_s,
          attempt.final,
          attempt.in_place,
          attempt.together};
}

measure::Trial TrialLoop::await(Pending pending) {
  const std::uint64_t id = next_id_++;
  measure::Trial trial = trial_of(pending.attempt, id);
  pending_[id] = std::move(pending);
  return trial;
}

void TrialLoop::submit(std::vector<Attempt> attempts) {
  std::vector<measure::Trial> trials;
  trials.reserve(attempts.size());
  for (Attempt& a : attempts) trials.push_back(await({std::move(a), 0}));
  if (!trials.empty()) measurer_->submit(std::move(trials));
}

void TrialLoop::submit_in_place(std::vector<Attempt> attempts) {
  std::vector<measure::Trial> trials;
  trials.reserve(attempts.size());
  for (Attempt& a : attempts) {
    a.in_place = true;
    trials.push_back(await({std::move(a), 0}));
  }
  if (!trials.empty()) measurer_->submit_together(std::move(trials));
}

void TrialLoop::collect(double timeout_s) {
  const Clock::time_point begin = Clock::now();
  const std::vector<measure::Measurement> done = measurer_->collect(timeout_s);
  times_.waiting += seconds_since(begin);
  forget_doubted();
  for (const measure::Measurement& m : done) take(m);
  ++polls_;
  if (measurer_->machine().busy) ++busy_polls_;
  if (seconds_since(flushed_) < kFlushSeconds) return;
  records_->flush();
  flushed_ = Clock::now();
}

void TrialLoop::forget_doubted() {
  for (const std::int64_t machine : measurer_->take_doubted()) {
    const std::string note = records_->retract(machine);
    if (on_doubt_) on_doubt_(machine, note);
  }
}

void TrialLoop::take(measure::Measurement m) {
  const auto it = pending_.find(m.id);
  if (it == pending_.end()) return;
  Pending p = std::move(it->second);
  pending_.erase(it);
  times_.build += m.build_ms / 1000;
  times_.run += m.run_ms / 1000;
  if (memory_[m.machine].is_disturbed(m.memory_s) && tasks_[p.attempt.task].feels_memory)
    m.disturbed = true;
  const bool disturbed = is_disturbed(m);
  const bool alone = !p.attempt.in_place;
  disturbed_ += disturbed ? 1 : 0;
  disturbed_in_a_row_ = disturbed && alone ? disturbed_in_a_row_ + 1 : 0;
  const bool lost = m.outcome == measure::Outcome::kWorkerLost;
  lost_in_a_row_ = lost ? lost_in_a_row_ + 1 : 0;
  if (lost) lost_reason_ = m.reason;
  if (disturbed && alone && p.disturbed < repeats_) {
    ++p.disturbed;
    measurer_->submit({await(std::move(p))});
    return;
  }
  if (const auto number = on_end_(p.attempt, m, disturbed)) keep(p.attempt, m, *number);
}

void TrialLoop::keep(const Attempt& attempt, const measure::Measurement& m, std::int64_t trial) {
  record::Record r = record_of(m, schedule::to_text(attempt.steps), measurer_->machine());
  r.task = tasks_[attempt.task].key;
  const LoopTask& task = tasks_[attempt.task];
  r.cold = task.cold_caches;
  r.evicted_bytes = task.cold_caches ? task.evicted_bytes : 0;
  r.unchecked = task.unchecked;
  r.quiet = r.quiet && !task.contended;
  if (attempt.in_place) {
    r.subject = record::Subject::kInPlace;
    r.model = task.model;
  }
  r.candidate = attempt.text;
  r.policy = attempt.policy;
  r.trial = trial;
  records_->add(std::move(r), m.machine);
}

void TrialLoop::give_up(bool wait) {
  if (measurer_->pending() == 0) return;
  if (wait) collect(kLastTrialSeconds);
  measurer_->cancel();
  pending_.clear();
}

std::size_t TrialLoop::pending_of(std::size_t task) const {
  return static_cast<std::size_t>(
      std::count_if(pending_.begin(), pending_.end(),
                    [&](const auto& p) { return p.second.attempt.task == task; }));
}

std::vector<measure::Measurement> TrialLoop::compare(const std::vector<Attempt>& attempts,
                                                     const std::function<bool()>& again) {
  std::vector<measure::Trial> trials;
  trials.reserve(attempts.size());
  for (const Attempt& a : attempts) trials.push_back(trial_of(a, trials.size()));
  for (int repeats = 0;; ++repeats) {
    std::vector<measure::Measurement> compared = measurer_->compare(trials);
    forget_doubted();
    const bool shared =
        !compared.empty() && memory_[compared[0].machine].is_disturbed(compared[0].memory_s);
    for (std::size_t i = 0; i < compared.size(); ++i) {
      if (shared && tasks_[attempts[i].task].feels_memory) compared[i].disturbed = true;
    }
    const auto disturbed = std::count_if(compared.begin(), compared.end(), is_disturbed);
    disturbed_ += disturbed;
    if (disturbed == 0 || repeats == 1 || !again()) return compared;
  }
}

std::optional<TrialLoop::Trouble> TrialLoop::trouble() const {
  if (!records_->error().empty()) return Trouble{"the database", records_->error()};
  if (lost_in_a_row_ >= kMostLost) {
    return Trouble{"the loss of its workers", "workers keep going away: " + lost_reason_};
  }
  if (disturbed_in_a_row_ >= kMostDisturbed) {
    return Trouble{
        "other work on the cores",
        fmt::format("other work takes the cores from what is measured: {} times in a row",
                    disturbed_in_a_row_)};
  }
  return std::nullopt;
}

}  // namespace tessera::app
