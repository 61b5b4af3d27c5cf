// Records, sessions and tasks as rows, and texts that are kept once.
#include <map>
#include <set>

#include "tessera/support/hash.h"
#include "tessera/trials/record/database_impl.h"
#include "tessera/trials/record/row.h"

namespace tessera::record {
namespace {

// Ids and texts kept in memory; files of any size are read and written with the same.
constexpr std::size_t kMostKnown = 20'000;

std::vector<std::string> lines_of(const std::string& schedule) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < schedule.size();) {
    const std::size_t end = std::min(schedule.find('\n', at), schedule.size());
    lines.push_back(schedule.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The id of a row that `add` makes; where another writer was faster, the one that `find` finds.
Result<std::int64_t> added_id(Statement& add, Statement& find, const std::string& text) {
  TESSERA_TRY(const bool added, add.step());
  if (added) {
    const std::int64_t id = add.integer(0);
    add.reset();
    return id;
  }
  find.bind(0, text);
  TESSERA_TRY(const bool known, find.step());
  if (!known) return make_error(ErrorCode::kIo, "a text was removed while it was being written");
  const std::int64_t id = find.integer(0);
  find.reset();
  return id;
}

}  // namespace

const char* const kInsertRecord =
    "INSERT INTO records (session, format, task, target, outcome, policy, threads, candidate,"
    " digest, reason, samples, seconds, calibration, build_ms, seed, trial, time, extra, schedule,"
    " quiet, subject, model, cold, evicted, unchecked, default_s, memory_s) VALUES (?, ?, ?, ?, ?,"
    " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const char* const kInsertRecordWithId =
    "INSERT INTO records (session, format, task, target, outcome, policy, threads, candidate,"
    " digest, reason, samples, seconds, calibration, build_ms, seed, trial, time, extra, schedule,"
    " quiet, subject, model, cold, evicted, unchecked, default_s, memory_s, id) VALUES (?, ?, ?, ?,"
    " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

// Older tables have no schedules, or no subjects.
std::string select_of(std::int64_t version) {
  return fmt::format(
      "SELECT r.id, r.session, f.text, k.text, t.text, r.threads, r.candidate, r.digest, o.text,"
      " r.reason, r.samples, r.seconds, r.calibration, r.build_ms, p.text, r.seed, r.trial, r.time,"
      " r.extra, {}, {} FROM records r JOIN texts f ON f.id = r.format JOIN texts k ON k.id = "
      "r.task"
      " JOIN texts t ON t.id = r.target JOIN texts o ON o.id = r.outcome"
      " JOIN texts p ON p.id = r.policy{}",
      version < 2 ? "NULL, 0" : "s.lines, r.quiet",
      version < 3 ? "0, '', 0, 0, 0, 0, 0"
                  : "r.subject, r.model, r.cold, r.evicted, r.unchecked, r.default_s, r.memory_s",
      version < 2 ? "" : " LEFT JOIN schedules s ON s.id = r.schedule");
}

void bind_task(const TaskRow& task, Statement& statement) {
  statement.bind(0, task.key);
  statement.bind(1, task.name);
  statement.bind(2, task.definition);
  statement.bind(3, task.flops);
  statement.bind(4, task.bytes);
}

// States as they are kept: state_now() says what they mean.
Result<std::vector<SessionRow>> sessions_of(const Connection& connection) {
  TESSERA_TRY(
      Statement select,
      connection.prepare(
          "SELECT id, model, target, options, version, threads, seed, started, ended, state,"
          " (SELECT count(*) FROM records r WHERE r.session = sessions.id)"
          " FROM sessions ORDER BY id"));
  std::vector<SessionRow> rows;
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return rows;
    SessionRow& s = rows.emplace_back();
    s.id = select.integer(0);
    s.model = select.text(1);
    s.target = select.text(2);
    s.options = select.text(3);
    s.version = select.text(4);
    s.threads = static_cast<int>(select.integer(5));
    s.seed = static_cast<std::uint64_t>(select.integer(6));
    s.started = select.integer(7);
    s.ended = select.integer(8);
    s.state = select.text(9);
    s.records = select.integer(10);
  }
}

void bind_session(const SessionRow& s, Statement& statement) {
  int next = 0;
  for (const std::string* text : {&s.model, &s.target, &s.options, &s.version}) {
    statement.bind(next++, *text);
  }
  statement.bind(next++, std::int64_t{s.threads});
  statement.bind(next++, static_cast<std::int64_t>(s.seed));
  statement.bind(next++, s.started);
  statement.bind(next++, s.ended);
  statement.bind(next++, s.state);
}

Result<std::vector<TaskRow>> tasks_of(const Connection& connection) {
  TESSERA_TRY(Statement select, connection.prepare("SELECT key, name, definition, flops, bytes"
                                                   " FROM tasks ORDER BY id"));
  std::vector<TaskRow> rows;
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return rows;
    rows.push_back({.key = select.text(0),
                    .name = select.text(1),
                    .definition = select.text(2),
                    .flops = select.real(3),
                    .bytes = select.real(4)});
  }
}

void Database::Impl::bound_ids() {
  if (texts.size() > kMostKnown) texts.clear();
  if (schedules.size() > kMostKnown) schedules.clear();
}

Result<std::string> Database::Impl::text_of(std::int64_t id) {
  const std::lock_guard lock(reading);
  if (const auto it = lines.find(id); it != lines.end()) return it->second;
  TESSERA_TRY(Statement find, connection.prepare("SELECT text FROM texts WHERE id = ?"));
  find.bind(0, id);
  TESSERA_TRY(const bool known, find.step());
  if (!known) {
    return make_error(ErrorCode::kIo, "{}: a schedule has a line that is not there",
                      connection.name());
  }
  if (lines.size() >= kMostKnown) lines.clear();
  return lines[id] = find.text(0);
}

Result<Record> Database::Impl::record_of(const Statement& row) {
  Record r;
  r.id = row.integer(0);
  r.session = row.integer(1);
  r.format = row.text(2);
  r.task = row.text(3);
  r.target = row.text(4);
  r.threads = static_cast<int>(row.integer(5));
  r.candidate = row.text(6);
  r.schedule_digest = row.text(7);
  r.outcome = row.text(8);
  r.reason = row.text(9);
  r.samples_s = row.samples(10);
  r.seconds = row.real(11);
  r.calibration_s = row.real(12);
  r.build_ms = row.real(13);
  r.policy = row.text(14);
  r.seed = static_cast<std::uint64_t>(row.integer(15));
  r.trial = row.integer(16);
  r.unix_time = row.integer(17);
  r.extra = row.text(18);
  for (const std::int64_t id : row.ids(19)) {
    TESSERA_TRY(const std::string line, text_of(id));
    r.schedule += line + "\n";
  }
  r.quiet = row.integer(20) != 0;
  const std::int64_t subject = row.integer(21);
  if (subject < 0 || subject > static_cast<int>(Subject::kModel)) {
    return make_error(ErrorCode::kIo, "{}: record {} is of an unknown subject {}",
                      connection.name(), r.id, subject);
  }
  r.subject = static_cast<Subject>(subject);
  r.model = row.text(22);
  r.cold = row.integer(23) != 0;
  r.evicted_bytes = row.integer(24);
  r.unchecked = row.integer(25) != 0;
  r.default_s = row.real(26);
  r.memory_s = row.real(27);
  if (version < 3) take_marks(&r);
  return r;
}

void Database::Impl::forget() {
  texts.clear();
  schedules.clear();
  const std::lock_guard lock(reading);
  lines.clear();
}

Result<std::int64_t> Database::Impl::intern_schedule(const Record& r) {
  const std::string digest = to_hex(hash_bytes(r.schedule));
  if (const auto it = schedules.find(digest); it != schedules.end()) return it->second;
  TESSERA_TRY(Statement find, connection.prepare("SELECT id FROM schedules WHERE digest = ?"));
  find.bind(0, digest);
  TESSERA_TRY(const bool known, find.step());
  if (known) return schedules[digest] = find.integer(0);
  std::vector<std::int64_t> ids;
  for (const std::string& line : lines_of(r.schedule)) {
    TESSERA_TRY(const std::int64_t id, intern(line));
    ids.push_back(id);
  }
  TESSERA_TRY(Statement add,
              connection.prepare("INSERT INTO schedules (digest, lines) VALUES (?, ?) ON "
                                 "CONFLICT DO NOTHING RETURNING id"));
  add.bind(0, digest);
  add.bind_ids(1, ids);
  TESSERA_TRY(const std::int64_t added, added_id(add, find, digest));
  return schedules[digest] = added;
}

Result<std::int64_t> Database::Impl::intern(const std::string& text) {
  if (const auto it = texts.find(text); it != texts.end()) return it->second;
  TESSERA_TRY(Statement find, connection.prepare("SELECT id FROM texts WHERE text = ?"));
  find.bind(0, text);
  TESSERA_TRY(const bool known, find.step());
  if (known) return texts[text] = find.integer(0);
  TESSERA_TRY(Statement add,
              connection.prepare("INSERT INTO texts (text) VALUES (?) ON CONFLICT DO "
                                 "NOTHING RETURNING id"));
  add.bind(0, text);
  TESSERA_TRY(const std::int64_t added, added_id(add, find, text));
  return texts[text] = added;
}

Result<void> Database::Impl::intern_all(const std::vector<Record>& records) {
  if (!connection.is_server()) return {};  // of a file there is one writer
  std::set<std::string> wanted;
  std::map<std::string, const Record*> new_schedules;  // by digest
  for (const Record& r : records) {
    for (const std::string* text : {&r.format, &r.task, &r.target, &r.outcome, &r.policy}) {
      if (!texts.contains(*text)) wanted.insert(*text);
    }
    const std::string digest = to_hex(hash_bytes(r.schedule));
    if (r.schedule.empty() || schedules.contains(digest)) continue;
    new_schedules[digest] = &r;
    for (std::string& line : lines_of(r.schedule)) wanted.insert(std::move(line));
  }
  for (const std::string& text : wanted) TESSERA_DO(intern(text));
  for (const auto& [digest, r] : new_schedules) TESSERA_DO(intern_schedule(*r));
  return {};
}

Result<void> Database::Impl::bind_record(Statement& statement, const Record& r) {
  bound_ids();
  int next = 0;
  statement.bind(next++, r.session);
  for (const std::string* text : {&r.format, &r.task, &r.target, &r.outcome, &r.policy}) {
    TESSERA_TRY(const std::int64_t id, intern(*text));
    statement.bind(next++, id);
  }
  statement.bind(next++, std::int64_t{r.threads});
  statement.bind(next++, r.candidate);
  statement.bind(next++, r.schedule_digest);
  statement.bind(next++, r.reason);
  statement.bind_samples(next++, r.samples_s);
  statement.bind(next++, r.seconds);
  statement.bind(next++, r.calibration_s);
  statement.bind(next++, r.build_ms);
  statement.bind(next++, static_cast<std::int64_t>(r.seed));
  statement.bind(next++, r.trial);
  statement.bind(next++, r.unix_time);
  statement.bind(next++, r.extra);
  std::int64_t schedule = 0;
  if (!r.schedule.empty()) {
    TESSERA_TRY(schedule, intern_schedule(r));
  }
  statement.bind(next++, schedule);
  statement.bind(next++, std::int64_t{r.quiet});
  statement.bind(next++, static_cast<std::int64_t>(r.subject));
  statement.bind(next++, r.model);
  statement.bind(next++, std::int64_t{r.cold});
  statement.bind(next++, r.evicted_bytes);
  statement.bind(next++, std::int64_t{r.unchecked});
  statement.bind(next++, r.default_s);
  statement.bind(next++, r.memory_s);
  return {};
}

}  // namespace tessera::record
