#include "tessera/driver/tune/tune_database.h"

#include <ctime>

#include <fmt/ranges.h>

#include "tessera/driver/tune/record_update.h"
#include "tessera/support/hash.h"
#include "tessera/target/match.h"

namespace tessera::driver {

Result<OpenedStore> open_database(const std::string& path, const std::vector<TuneSubject>& subjects,
                                  record::SessionRow session) {
  const auto unreachable = [&](const Error& e) {
    return Error{ErrorCode::kUnavailable, fmt::format("database {}: {}", path, e.message)};
  };
  Result<record::Database> opened = record::Database::open(path);
  if (!opened) return unreachable(opened.error());
  const Result<bool> outdated = opened->is_outdated();
  const Result<std::int64_t> updated = !outdated   ? outdated.error()
                                       : *outdated ? bring_up_to_date(*opened)
                                                   : 0;
  if (!updated) return unreachable(updated.error());
  std::vector<std::string> names;
  names.reserve(subjects.size());
  for (const TuneSubject& subject : subjects) names.push_back(subject.name);
  session.model = fmt::format("{}", fmt::join(names, " "));
  session.version = "0.1.0";
  session.started = std::time(nullptr);
  session.state = "running";
  const Result<std::int64_t> id = opened->begin_session(session);
  if (!id) return unreachable(id.error());
  return OpenedStore{std::make_unique<record::Database>(std::move(opened).value()), *id};
}

Result<std::vector<std::string>> targets_of_machine(const record::RecordStore& store,
                                                    const target::Target& target) {
  std::vector<std::string> out = {target::to_text(target)};
  TESSERA_TRY(const std::vector<std::string> known, store.targets());
  for (const std::string& text : known) {
    const Result<target::Target> parsed = target::target_from_text(text);
    if (parsed.ok() && text != out[0] && target::same_machine(*parsed, target)) out.push_back(text);
  }
  return out;
}

record::Record record_of(const measure::Measurement& m, const std::string& schedule,
                         const measure::MachineState& machine) {
  record::Record r;
  r.schedule = schedule;
  r.schedule_digest = to_hex(hash_bytes(schedule));
  r.quiet = measure::is_timed(m.outcome) && !m.disturbed && !machine.busy;
  r.outcome = measure::to_text(m.outcome);
  r.reason = m.reason;
  r.samples_s = m.samples_s;
  r.seconds = measure::is_timed(m.outcome) ? m.seconds() : 0;
  r.calibration_s = m.calibration_s;
  r.build_ms = m.build_ms;
  r.unix_time = std::time(nullptr);
  return r;
}

}  // namespace tessera::driver
