// Candidates that a session times side by side: the fastest of a task beside its default while it
// searches, the best few at the end.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/app/tune/tune_session.h"

namespace tessera::app {
namespace {

// Of the time so far: what confirming may take.
constexpr double kConfirmShare = 0.12, kConfirmLeastSeconds = 1;
// Side by side: none slower than the best by more than the factor.
constexpr double kFinalistFactor = 1.1;

bool is_ok(const measure::Measurement& m) { return m.outcome == measure::Outcome::kOk; }

}  // namespace

void TuneSession::confirm_fastest() {
  // A table of a space is made of trials alone.
  if (options_.record_space) return;
  while (!to_confirm_.empty() && !why_stop()) {
    if (confirming_s_ > kConfirmLeastSeconds + kConfirmShare * elapsed_s()) return;
    const std::size_t task = *to_confirm_.begin();
    to_confirm_.erase(to_confirm_.begin());
    const std::optional<search::Observation> fastest = searches_->task(task).best();
    if (!fastest || before_s_[task] <= 0) continue;
    const space::Space& space = searches_->space(task);
    const std::string text = space.to_text(fastest->candidate);
    if (fastest->candidate == space.preferred()) {
      gains_.keep_default(task, text);
    } else if (gains_.wants(task, text)) {
      confirm(task, *fastest);
    }
  }
}

void TuneSession::confirm(std::size_t task, const search::Observation& fastest) {
  const space::Space& space = searches_->space(task);
  std::vector<Attempt> attempts;
  for (const decide::Candidate& c : {space.preferred(), fastest.candidate}) {
    const Result<schedule::Schedule> steps = space.schedule(c);
    if (!steps) return;
    attempts.push_back({task, c, *steps, space.to_text(c), kFinalPolicy, 0, true, 0});
  }
  const double begin_s = elapsed_s();
  const std::vector<measure::Measurement> m = loop_->compare(attempts, [] { return false; });
  confirming_s_ += elapsed_s() - begin_s;
  // Shared with other work both were: they took turns. Where only one was, the ratio says nothing.
  if (m.size() != 2 || !is_ok(m[0]) || !is_ok(m[1]) || m[0].disturbed != m[1].disturbed) return;
  if (!m[0].disturbed)
    time_default(task, at_reference(m[0].seconds(), m[0].calibration_s, m[0].machine));
  const double gain = gains_.confirm(task, attempts[1].text, m[0].seconds(), m[1].seconds());
  searches_->correct(task, fastest.candidate, before_s_[task] / gain);
  for (std::size_t i = 0; i < 2 && !m[0].disturbed; ++i) {
    timed_now_[task].insert(attempts[i].text);
    loop_->keep(attempts[i], m[i], trials_);
  }
}

std::vector<Finalist> TuneSession::finals(std::size_t task, std::size_t most) {
  if (!searches_->is_open(task)) return {};
  if (race_ && race_->runs(task)) return finals_in_place(task);
  const space::Space& space = searches_->space(task);
  const search::TaskSearch& search = searches_->task(task);
  const decide::Candidate preferred = space.preferred();
  std::vector<Finalist> finalists;
  std::vector<Attempt> attempts;
  const auto add = [&](const decide::Candidate& c, double seconds) {
    const Result<schedule::Schedule> steps = space.schedule(c);
    if (!steps || seconds <= 0) return;
    finalists.push_back({space.to_text(c), schedule::to_text(*steps), seconds, c == preferred});
    finalists.back().now = timed_now_[task].contains(finalists.back().candidate);
    attempts.push_back({task, c, *steps, finalists.back().candidate, kFinalPolicy, 0, true, 0});
  };
  add(preferred, before_s_[task]);
  for (const search::Observation& o : search.best(most > 0 ? most : kFinalists)) {
    if (o.candidate == preferred) continue;
    if (o.seconds > kFinalistFactor * search.best_seconds()) continue;
    add(o.candidate, o.seconds);
  }
  for (Finalist& f : finalists) f.chosen_by_s = f.seconds;
  const bool compared = most > 0 && finalists.size() > 1;
  if (compared) {
    const auto again = [this] { return !interrupted() && remaining_s() > 0; };
    take_compared(task, attempts, loop_->compare(attempts, again), &finalists);
    records_.flush();
  }
  std::erase_if(finalists, [](const Finalist& f) { return !std::isfinite(f.seconds); });
  std::stable_sort(finalists.begin(), finalists.end(), [](const Finalist& a, const Finalist& b) {
    return a.chosen_by_s < b.chosen_by_s;
  });
  // Chosen by one half of the samples and slower by the other: that was luck.
  const auto by_default = std::find_if(finalists.begin(), finalists.end(),
                                       [](const Finalist& f) { return f.is_default; });
  if (by_default != finalists.end() && by_default->seconds <= finalists.front().seconds)
    std::rotate(finalists.begin(), by_default, by_default + 1);
  if (most == 0 || finalists.empty()) return finalists;
  const Finalist& first = finalists.front();
  compared_best_s_[task] = first.seconds;
  if (first.is_default) {
    gains_.keep_default(task, first.candidate);
  } else if (compared) {
    gains_.confirm(task, first.candidate, before_s_[task], first.seconds);
  }
  return finalists;
}

// One factor for all that was timed side by side: the tasks of a fleet have their finals on several
// machines, and those of one machine at several times.
double TuneSession::to_reference_of(const std::vector<measure::Measurement>& compared) {
  const auto timed = std::find_if(compared.begin(), compared.end(), is_ok);
  if (timed == compared.end()) return 1;
  // The reference of the session must not come from what was disturbed.
  if (reference_s_ <= 0 && timed->disturbed) return 1;
  return at_reference(1, timed->calibration_s, timed->machine);
}

void TuneSession::take_compared(std::size_t task, const std::vector<Attempt>& attempts,
                                const std::vector<measure::Measurement>& compared,
                                std::vector<Finalist>* finalists) {
  const auto disturbed = [](const measure::Measurement& m) { return is_ok(m) && m.disturbed; };
  const bool all_disturbed = std::all_of(compared.begin(), compared.end(), disturbed);
  const double to_reference = to_reference_of(compared);
  for (const measure::Measurement& m : compared) {
    Finalist& f = (*finalists)[m.id];
    // A lost worker says nothing about the candidate.
    if (m.outcome == measure::Outcome::kWorkerLost) continue;
    f.now = f.raced = is_ok(m);
    const Halves halves = halves_of(m.samples_s);
    const double never_s = std::numeric_limits<double>::infinity();
    f.chosen_by_s = f.now ? halves.chosen_by_s * to_reference : never_s;
    // Shared with other work a time is too long. Where all were, they took turns; else the default
    // gets what the search measured, and no other gains by it.
    const bool known = f.is_default && disturbed(m) && !all_disturbed;
    const double told_s = f.now ? halves.told_s * to_reference : never_s;
    if (known) f.chosen_by_s = std::min(f.seconds, f.chosen_by_s);
    f.seconds = known ? std::min(f.seconds, told_s) : told_s;
    if (f.is_default && f.now) {
      before_s_[task] = f.seconds;
      before_now_[task] = true;
    }
    if (!disturbed(m)) loop_->keep(attempts[m.id], m, trials_ + 1);
    if (!f.now) continue;
    searches_->correct(task, attempts[m.id].candidate, f.seconds);
  }
}

}  // namespace tessera::app
