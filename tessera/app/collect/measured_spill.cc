#include "tessera/app/collect/measured_spill.h"

#include <algorithm>
#include <cstring>

#include "tessera/learn/dataset/gzip.h"
#include "tessera/support/hash.h"
#include "tessera/support/quantile.h"
#include "tessera/trials/measure/measurement.h"

namespace tessera::app {
namespace {

struct Fixed {
  double seconds = 0, calibration_s = 0;
  std::uint32_t reference = 0, outcome = 0;
  std::uint64_t candidate_bytes = 0;
  std::uint32_t quiet = 0;
};

enum class Kind : std::uint8_t { kClean, kCensored, kFailed };

}  // namespace

struct MeasuredSpill::Entry {
  Fixed fixed;
  std::string_view candidate, schedule;
};

struct MeasuredSpill::Candidate {
  std::uint64_t steps = 0;  // digest of the steps
  std::uint32_t check = 0;  // and another one
  std::uint32_t number = 0;
  std::uint32_t outcome = 0;
  float seconds = 0;
  Kind kind = Kind::kFailed;
  bool quiet = false;

  auto same() const { return std::pair(steps, check); }
};

Result<MeasuredSpill> MeasuredSpill::create(const std::string& folder) {
  TESSERA_TRY(dataset::Spill spill, dataset::Spill::create(folder));
  return MeasuredSpill(std::move(spill));
}

std::uint32_t MeasuredSpill::new_reference() {
  references_.push_back(0);
  return static_cast<std::uint32_t>(references_.size() - 1);
}

void MeasuredSpill::set_reference(std::uint32_t reference, double calibration_s) {
  references_[reference] = calibration_s;
}

Result<void> MeasuredSpill::add(std::int32_t task, std::int32_t machine, const record::Record& r,
                                std::uint32_t reference) {
  const auto [outcome, added] =
      outcome_numbers_.try_emplace(r.outcome, static_cast<std::uint32_t>(outcomes_.size()));
  if (added) outcomes_.push_back(r.outcome);
  Fixed fixed;
  fixed.seconds = r.seconds;
  fixed.calibration_s = r.calibration_s;
  fixed.reference = reference;
  fixed.outcome = outcome->second;
  fixed.candidate_bytes = r.candidate.size();
  fixed.quiet = r.quiet ? 1 : 0;
  std::string bytes(sizeof fixed, '\0');
  std::memcpy(bytes.data(), &fixed, sizeof fixed);
  bytes += r.candidate;
  bytes += r.schedule;
  const std::size_t group = groups_.try_emplace({task, machine}, groups_.size()).first->second;
  return spill_.add(group, bytes);
}

MeasuredSpill::Entry MeasuredSpill::parse(std::string_view bytes) {
  Entry e;
  std::memcpy(&e.fixed, bytes.data(), sizeof e.fixed);
  bytes.remove_prefix(sizeof e.fixed);
  e.candidate = bytes.substr(0, e.fixed.candidate_bytes);
  e.schedule = bytes.substr(e.fixed.candidate_bytes);
  return e;
}

MeasuredSpill::Candidate MeasuredSpill::measured(const Entry& e, std::uint32_t number) const {
  // Foreign records have their steps in the candidate.
  const std::string_view steps = e.schedule.empty() ? e.candidate : e.schedule;
  Candidate c;
  c.steps = hash_bytes(steps);
  c.check = dataset::crc32_of(steps);
  c.number = number;
  c.outcome = e.fixed.outcome;
  c.quiet = e.fixed.quiet != 0;
  measure::Outcome outcome = measure::Outcome::kRunError;
  const bool known = measure::outcome_from_text(outcomes_[c.outcome], &outcome);
  const double seconds = measure::without_drift(e.fixed.seconds, e.fixed.calibration_s,
                                                references_[e.fixed.reference]);
  if (known && measure::is_timed(outcome) && seconds > 0) {
    c.seconds = static_cast<float>(seconds);
    c.kind = outcome == measure::Outcome::kOk ? Kind::kClean : Kind::kCensored;
  }
  return c;
}

// Of several measurements the median of the clean ones counts, of those that were quiet if any was.
MeasuredSpill::Candidate MeasuredSpill::merge(const Candidate* begin, const Candidate* end) const {
  Candidate out = *begin;  // the first
  for (const Candidate* c = begin; c != end; ++c) {
    const auto rank = [](const Candidate& a) { return std::pair(a.kind, !a.quiet); };
    const bool better = c->kind != Kind::kFailed && rank(*c) < rank(out);
    // Of failures the first that says what it was.
    const bool says = out.kind == Kind::kFailed && c->kind == Kind::kFailed &&
                      outcomes_[out.outcome].empty() && !outcomes_[c->outcome].empty();
    if (!better && !says) continue;
    out = *c;
    out.number = begin->number;
  }
  if (out.kind == Kind::kFailed) {
    out.quiet = false;
    return out;
  }
  std::vector<double> seconds;
  for (const Candidate* c = begin; c != end; ++c) {
    if (c->kind == out.kind && c->quiet == out.quiet) seconds.push_back(c->seconds);
  }
  out.seconds = static_cast<float>(upper_median(std::move(seconds)));
  return out;
}

Result<std::size_t> MeasuredSpill::write_pair(std::int32_t task, std::int32_t machine,
                                              std::size_t group,
                                              dataset::DatasetWriter* writer) const {
  std::vector<Candidate> all;
  TESSERA_DO(spill_.visit(group, [&](std::string_view bytes) -> Result<void> {
    all.push_back(measured(parse(bytes), static_cast<std::uint32_t>(all.size())));
    return {};
  }));
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.same(), a.number) < std::pair(b.same(), b.number);
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i + 1;
    while (end < all.size() && all[end].same() == all[i].same()) ++end;
    all[kept++] = merge(all.data() + i, all.data() + end);
    i = end;
  }
  const std::size_t further = all.size() - kept;
  all.resize(kept);
  std::sort(all.begin(), all.end(),
            [](const Candidate& a, const Candidate& b) { return a.number < b.number; });
  std::uint32_t number = 0;
  std::size_t next = 0;
  TESSERA_DO(spill_.visit(group, [&](std::string_view bytes) -> Result<void> {
    if (next == all.size() || all[next].number != number++) return {};
    const Candidate& c = all[next++];
    const Entry entry = parse(bytes);
    dataset::Example e;
    e.task = task;
    e.machine = machine;
    e.candidate = entry.candidate;
    e.seconds = c.seconds;
    e.outcome = outcomes_[c.outcome];
    e.schedule = entry.schedule;
    e.quiet = c.quiet;
    return writer->add(e);
  }));
  return further;
}

Result<std::size_t> MeasuredSpill::write(dataset::DatasetWriter* writer) {
  std::size_t further = 0;
  for (const auto& [place, group] : groups_) {
    TESSERA_TRY(const std::size_t count, write_pair(place.first, place.second, group, writer));
    further += count;
  }
  return further;
}

}  // namespace tessera::app
