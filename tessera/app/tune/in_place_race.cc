#include "tessera/app/tune/in_place_race.h"

#include <algorithm>
#include <utility>

namespace tessera::app {
namespace {

// Less is not worth another schedule.
constexpr double kLeastGain = 1.003;

}  // namespace

InPlaceRace::InPlaceRace(std::vector<std::vector<decide::Candidate>> entrants) {
  for (std::vector<decide::Candidate>& list : entrants) {
    Task& task = tasks_.emplace_back();
    for (decide::Candidate& c : list) task.entrants.push_back({std::move(c), {}, false});
  }
}

// In every batch so far.
bool InPlaceRace::beats_default(const Entrant& e) {
  return !e.failed && !e.gains.empty() &&
         std::all_of(e.gains.begin(), e.gains.end(), [](double g) { return g > kLeastGain; });
}

std::optional<std::size_t> InPlaceRace::leader(const Task& task) {
  std::optional<std::size_t> out;
  for (std::size_t i = 0; i < task.entrants.size(); ++i) {
    const Entrant& e = task.entrants[i];
    if (!beats_default(e)) continue;
    if (!out || e.gains.front() > task.entrants[*out].gains.front()) out = i;
  }
  return out;
}

std::vector<InPlaceRace::Draw> InPlaceRace::next() {
  std::vector<Draw> out;
  if (batch_ == kBatches) return out;
  const bool all = batch_++ == 0;
  for (std::size_t t = 0; t < tasks_.size(); ++t) {
    Task& task = tasks_[t];
    if (all) {
      for (const Entrant& e : task.entrants) out.push_back({t, e.candidate});
      continue;
    }
    if (batch_ == 2) task.picked = leader(task);
    if (task.picked && beats_default(task.entrants[*task.picked]))
      out.push_back({t, task.entrants[*task.picked].candidate});
  }
  return out;
}

void InPlaceRace::observe(std::size_t task, const decide::Candidate& candidate,
                          std::optional<double> gain) {
  for (Entrant& e : tasks_[task].entrants) {
    if (!(e.candidate == candidate)) continue;
    e.failed |= !gain.has_value();
    if (gain) e.gains.push_back(*gain);
  }
}

std::optional<InPlaceRace::Winner> InPlaceRace::winner(std::size_t task) const {
  const Task& t = tasks_[task];
  // A race that ended early has no better choice than whoever leads.
  const std::optional<std::size_t> picked = batch_ > 1 ? t.picked : leader(t);
  if (!picked) return std::nullopt;
  const Entrant& e = t.entrants[*picked];
  // The last batch tells and decides nothing: what it shows of a winner may be a loss.
  constexpr std::size_t kDeciding = 2;
  Entrant decided = e;
  decided.gains.resize(std::min(e.gains.size(), kDeciding));
  if (!beats_default(decided)) return std::nullopt;
  const bool told = e.gains.size() > kDeciding;
  return Winner{e.candidate, told ? e.gains.back() : 1, told};
}

}  // namespace tessera::app
