#include "tessera/app/tune/trial_records.h"

#include <ctime>

#include <fmt/ranges.h>

#include "tessera/app/tune/record_update.h"
#include "tessera/machine/target/match.h"
#include "tessera/support/counted.h"
#include "tessera/support/hash.h"
#include "tessera/trials/record/database_name.h"
#include "tessera/trials/record/explain.h"

namespace tessera::app {
namespace {

constexpr double kSeenSeconds = 30;  // far less than record::kSessionGoneS

Error unreachable(const std::string& place, const Error& e) {
  const std::string name = record::shown_name(place);
  const bool named = e.message.starts_with(name);
  return Error{ErrorCode::kUnavailable,
               named ? "database " + e.message : fmt::format("database {}: {}", name, e.message)};
}

Result<std::unique_ptr<record::RecordStore>> open_store(const std::string& path) {
  Result<record::Database> opened = record::Database::open(path);
  if (!opened) return unreachable(path, opened.error());
  const Result<bool> outdated = opened->is_outdated();
  const Result<std::int64_t> updated = !outdated   ? outdated.error()
                                       : *outdated ? bring_up_to_date(*opened)
                                                   : 0;
  if (!updated) return unreachable(path, updated.error());
  return std::unique_ptr<record::RecordStore>(
      std::make_unique<record::Database>(std::move(opened).value()));
}

record::SessionRow session_row(const RecordOptions& options, const std::string& target) {
  std::vector<std::string> names;
  names.reserve(options.subjects.size());
  for (const TuneSubject& subject : options.subjects) names.push_back(subject.name);
  record::SessionRow row;
  row.model = fmt::format("{}", fmt::join(names, " "));
  row.target = target;
  row.options = record::without_secrets(options.command);
  row.threads = options.threads;
  row.seed = options.seed;
  row.version = options.version.empty() ? TESSERA_VERSION : options.version;
  row.started = std::time(nullptr);
  row.state = "running";
  return row;
}

}  // namespace

Result<TrialRecords> TrialRecords::look(const RecordOptions& options) {
  TrialRecords out;
  out.options_ = options;
  out.target_text_ = target::to_text(options.target);
  if (options.database.empty()) return out;
  TESSERA_TRY(out.store_, open_store(options.database));
  Result<std::vector<std::string>> targets = targets_of_machine(*out.store_, options.target);
  if (!targets) return unreachable(options.database, targets.error());
  out.targets_ = std::move(targets).value();
  return out;
}

Result<TrialRecords> TrialRecords::open(const RecordOptions& options,
                                        const std::vector<const task::Task*>& tasks) {
  TESSERA_TRY(TrialRecords out, look(options));
  if (!out.store_) return out;
  const Result<std::int64_t> session =
      out.store_->begin_session(session_row(options, out.target_text_));
  if (!session) return unreachable(options.database, session.error());
  out.session_ = *session;
  std::vector<record::TaskRow> rows;
  for (const task::Task* t : tasks)
    rows.push_back({t->key, t->name, te::to_text(t->dag), t->flops, t->bytes});
  const Result<void> added = out.store_->add_tasks(rows);
  if (!added) return unreachable(options.database, added.error());
  return out;
}

record::Filter TrialRecords::filter_of(const std::string& task) const {
  record::Filter filter;
  filter.task = task;
  filter.targets = targets_;
  filter.threads = options_.threads;
  filter.format = "tessera";
  filter.subject = options_.subject;
  return filter;
}

Result<void> TrialRecords::visit(const std::string& task,
                                 const std::function<void(const record::Record&)>& take) const {
  return visit_while(task, [&](const record::Record& r) {
    take(r);
    return true;
  });
}

Result<void> TrialRecords::visit_while(
    const std::string& task, const std::function<bool(const record::Record&)>& take) const {
  if (!store_) return {};
  const Result<void> done = store_->visit(filter_of(task), take);
  if (!done) return unreachable(options_.database, done.error());
  return {};
}

Result<std::int64_t> TrialRecords::count(const std::string& task) const {
  if (!store_) return 0;
  Result<std::int64_t> count = store_->count(filter_of(task));
  if (!count) return unreachable(options_.database, count.error());
  return count;
}

void TrialRecords::add(record::Record record, std::int64_t machine) {
  if (!store_) return;
  record.session = session_;
  record.target = target_text_;
  record.threads = options_.threads;
  record.seed = options_.seed;
  unsaved_.push_back(std::move(record));
  unsaved_by_.push_back(machine);
}

bool TrialRecords::add_plan(const graph::Graph& imported, const PlanTrial& trial) {
  if (!store_) return true;
  record::Record r;
  r.subject = record::Subject::kModel;
  r.task = model_key(imported, options_.subjects[0].compile);
  r.candidate = plan::to_text(trial.decisions);
  r.schedule_digest = to_hex(hash_bytes(r.candidate));
  r.policy = trial.found_by;
  r.samples_s = trial.samples_s;
  r.outcome = measure::to_text(trial.samples_s.empty() ? measure::Outcome::kWrongResult
                                                       : measure::Outcome::kOk);
  r.reason = trial.reason;
  r.seconds = trial.seconds;
  r.default_s = trial.rules_s;
  r.trial = ++plans_;
  r.unix_time = std::time(nullptr);
  if (plans_ == 1) {
    // For lists of records: what the key names.
    const record::TaskRow row{.key = r.task, .name = options_.subjects[0].name};
    if (!written(store_->add_tasks({row}))) return false;
  }
  add(std::move(r));
  return flush();
}

Result<std::vector<PlanTrial>> TrialRecords::earlier_plans(const graph::Graph& imported) const {
  std::vector<PlanTrial> out;
  if (!store_) return out;
  record::Filter filter = filter_of(model_key(imported, options_.subjects[0].compile));
  filter.subject = record::Subject::kModel;
  filter.timed_only = true;
  const Result<void> done = store_->visit(filter, [&](const record::Record& r) {
    if (r.seconds > 0 && r.default_s > 0)
      out.push_back({record::decisions_of(r), r.policy, r.samples_s, r.seconds, r.default_s, ""});
    return true;
  });
  if (!done) return unreachable(options_.database, done.error());
  return out;
}

bool TrialRecords::written(const Result<void>& done) {
  if (!done && error_.empty()) error_ = unreachable(options_.database, done.error()).message;
  return done.ok();
}

bool TrialRecords::flush() {
  if (!store_) return true;
  if (session_ != 0 && seconds_since(seen_) > kSeenSeconds) {
    (void)store_->session_seen(session_);  // where it fails append() will, and says why
    seen_ = Clock::now();
  }
  if (unsaved_.empty()) return true;
  if (!written(store_->append(unsaved_))) return false;
  for (std::size_t i = 0; i < unsaved_.size(); ++i) {
    if (unsaved_by_[i] == 0) continue;
    record::Record& r = saved_by_[unsaved_by_[i]].emplace_back();
    r.task = unsaved_[i].task;
    r.trial = unsaved_[i].trial;
    r.schedule_digest = unsaved_[i].schedule_digest;
  }
  unsaved_.clear();
  unsaved_by_.clear();
  return true;
}

std::string TrialRecords::retract(std::int64_t machine) {
  for (std::size_t i = unsaved_.size(); i-- > 0;) {
    if (unsaved_by_[i] != machine) continue;
    unsaved_.erase(unsaved_.begin() + static_cast<std::ptrdiff_t>(i));
    unsaved_by_.erase(unsaved_by_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  const auto saved = saved_by_.extract(machine);
  if (saved.empty()) return "";
  const Result<void> removed = store_->remove(session_, saved.mapped());
  if (removed.ok()) return "";
  return fmt::format(
      "{} of them stay in session {} ({}): `tessera db prune --session {}` of the "
      "database's owner removes it",
      counted(saved.mapped().size(), "record"), session_, removed.error().message, session_);
}

bool TrialRecords::end(const std::string& state) {
  return !store_ || written(store_->end_session(session_, state));
}

Result<std::vector<std::string>> targets_of_machine(const record::RecordStore& store,
                                                    const target::Target& target) {
  std::vector<std::string> out = {target::to_text(target)};
  TESSERA_TRY(const std::vector<std::string> known, store.targets());
  for (const std::string& text : known) {
    const Result<target::Target> parsed = target::target_from_text(text);
    if (parsed.ok() && text != out[0] && target::same_group(*parsed, target)) out.push_back(text);
  }
  return out;
}

std::string model_key(const graph::Graph& imported, const CompileOptions& how) {
  std::string text = graph::to_text(imported);
  // The graph is as it was imported: what the passes make of its floats is not in it.
  if (how.floats != DType::kF32) text += fmt::format("\nfloats {}", to_text(how.floats));
  if (how.rounding != graph::Rounding::kAsModel)
    text += fmt::format("\nrounding {}", static_cast<int>(how.rounding));
  return to_hex(hash_bytes(text));
}

std::string placed_key(const graph::Graph& imported, const CompileOptions& how, int copies) {
  const std::string alone = model_key(imported, how);
  return copies == 0 ? alone : to_hex(hash_bytes(fmt::format("{} beside {}", alone, copies)));
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
  r.memory_s = m.memory_s;
  r.default_s = m.default_s;
  r.build_ms = m.build_ms;
  r.unix_time = std::time(nullptr);
  return r;
}

}  // namespace tessera::app
