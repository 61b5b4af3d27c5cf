#include "tessera/trials/record/database.h"

#include <filesystem>
#include <mutex>
#include <set>
#include <unordered_map>

#include "tessera/support/hash.h"
#include "tessera/trials/record/row.h"
#include "tessera/trials/record/schema.h"
#include "tessera/trials/record/session_owner.h"
#include "tessera/trials/record/statement.h"

namespace tessera::record {
namespace {

// Ids and texts kept in memory; files of any size are read and written with the same.
constexpr std::size_t kMostKnown = 20'000;

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

// " WHERE ..." with the parameters of `filter` in order. A text that no record has matches nothing.
std::string condition(const Filter& filter, std::int64_t version) {
  std::string where;
  const auto both = [&](const std::string& part) {
    where += (where.empty() ? " WHERE " : " AND ") + part;
  };
  const auto same_text = [&](const std::string& value, const char* column) {
    if (!value.empty()) {
      both(fmt::format("r.{} = (SELECT id FROM texts WHERE text = ?)", column));
    }
  };
  same_text(filter.task, "task");
  same_text(filter.format, "format");
  if (!filter.targets.empty()) {
    std::string marks = "?";
    for (std::size_t i = 1; i < filter.targets.size(); ++i) marks += ", ?";
    both(fmt::format("r.target IN (SELECT id FROM texts WHERE text IN ({}))", marks));
  }
  if (filter.session != 0) both("r.session = ?");
  if (filter.threads != 0) both("r.threads = ?");
  if (filter.quiet) both(version < 2 ? "0" : "r.quiet = 1");
  if (filter.subject && version < 3) {
    both(*filter.subject == Subject::kKernel ? "1" : "0");
  } else if (filter.subject) {
    both(fmt::format("r.subject = {}", static_cast<int>(*filter.subject)));
  }
  if (filter.timed_only) both(fmt::format("r.outcome IN ({}, {})", kTextOk, kTextCensored));
  return where;
}

void bind_filter(const Filter& filter, Statement& statement) {
  int next = 0;
  for (const std::string* text : {&filter.task, &filter.format}) {
    if (!text->empty()) statement.bind(next++, *text);
  }
  for (const std::string& text : filter.targets) statement.bind(next++, text);
  if (filter.session != 0) statement.bind(next++, filter.session);
  if (filter.threads != 0) statement.bind(next++, std::int64_t{filter.threads});
}

// For one statement that returns nothing.
Result<void> finish(Statement& statement) {
  TESSERA_TRY(const bool row, statement.step());
  if (row) statement.reset();
  return {};
}

void bind_task(const TaskRow& task, Statement& statement) {
  statement.bind(0, task.key);
  statement.bind(1, task.name);
  statement.bind(2, task.definition);
  statement.bind(3, task.flops);
  statement.bind(4, task.bytes);
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

}  // namespace

struct Database::Impl {
  Impl(Connection c, std::int64_t v)
      : connection(std::move(c)), version(v), select(select_of(version)) {}

  Result<std::int64_t> intern(const std::string& text);
  void bound_ids();  // between records
  // The id of a schedule that is not empty; its lines are kept once.
  Result<std::int64_t> intern_schedule(const Record& record);
  Result<void> insert(Statement& statement, const Record& record);
  void forget();  // what went with a batch that failed
  Result<Record> record_of(const Statement& row);
  Result<std::string> text_of(std::int64_t id);

  Result<void> update_tasks(const std::function<TaskRow(const TaskRow&)>& update);
  Result<std::int64_t> update_records(const std::function<void(Record*)>& update);

  Connection connection;
  std::int64_t version;
  std::string select;
  std::mutex writing;
  // Some of the ids that are on disk or in this batch.
  std::unordered_map<std::string, std::int64_t> texts, schedules;
  std::mutex reading;
  std::unordered_map<std::int64_t, std::string> lines;  // of schedules, by id
};

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
                      connection.path());
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
                      connection.path(), r.id, subject);
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
  for (std::size_t at = 0; at < r.schedule.size();) {
    const std::size_t end = std::min(r.schedule.find('\n', at), r.schedule.size());
    TESSERA_TRY(const std::int64_t id, intern(r.schedule.substr(at, end - at)));
    ids.push_back(id);
    at = end + 1;
  }
  TESSERA_TRY(Statement add,
              connection.prepare("INSERT INTO schedules (digest, lines) VALUES (?, ?)"));
  add.bind(0, digest);
  add.bind_ids(1, ids);
  TESSERA_DO(finish(add));
  return schedules[digest] = connection.last_id();
}

Result<std::int64_t> Database::Impl::intern(const std::string& text) {
  if (const auto it = texts.find(text); it != texts.end()) return it->second;
  TESSERA_TRY(Statement find, connection.prepare("SELECT id FROM texts WHERE text = ?"));
  find.bind(0, text);
  TESSERA_TRY(const bool known, find.step());
  if (known) return texts[text] = find.integer(0);
  TESSERA_TRY(Statement add, connection.prepare("INSERT INTO texts (text) VALUES (?)"));
  add.bind(0, text);
  TESSERA_DO(finish(add));
  return texts[text] = connection.last_id();
}

Result<void> Database::Impl::insert(Statement& statement, const Record& r) {
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
  return finish(statement);
}

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::open(const std::string& path, std::int64_t max_bytes) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return make_error(ErrorCode::kIo, "{}: is a folder", path);
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    return make_error(ErrorCode::kIo, "{}: there is no folder {}", path, folder.string());
  }
  TESSERA_TRY(Connection connection, Connection::open(path, Connection::Mode::kCreate));
  TESSERA_DO(prepare_schema(connection));
  if (max_bytes > 0) {
    TESSERA_TRY(const std::int64_t page, connection.query_integer("PRAGMA page_size"));
    const std::int64_t pages =
        std::max<std::int64_t>(1, max_bytes / std::max<std::int64_t>(1, page));
    TESSERA_DO(connection.execute(fmt::format("PRAGMA max_page_count = {}", pages).c_str()));
  }
  return Database(std::make_unique<Impl>(std::move(connection), kSchemaVersion));
}

Result<Database> Database::open_read_only(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return make_error(ErrorCode::kIo, "{}: is a folder", path);
  }
  if (!std::filesystem::exists(path, error)) {
    return make_error(ErrorCode::kUnavailable, "{}: there is no such database", path);
  }
  std::int64_t version = kSchemaVersion;
  const auto open = [&](Connection::Mode mode) -> Result<Connection> {
    TESSERA_TRY(Connection connection, Connection::open(path, mode));
    TESSERA_TRY(version, check_schema(connection));
    return connection;
  };
  Result<Connection> connection = open(Connection::Mode::kRead);
  // WAL needs a file beside the database; where none can be made nobody else writes either.
  if (!connection.ok() && !std::filesystem::exists(path + "-wal", error)) {
    Result<Connection> again = open(Connection::Mode::kImmutable);
    if (again.ok()) connection = std::move(again);
  }
  if (!connection.ok()) return connection.error();
  return Database(std::make_unique<Impl>(std::move(connection).value(), version));
}

Result<std::int64_t> Database::begin_session(const SessionRow& s) {
  const std::lock_guard lock(impl_->writing);
  TESSERA_TRY(Transaction transaction, Transaction::begin(impl_->connection));
  TESSERA_TRY(Statement add,
              impl_->connection.prepare(
                  "INSERT INTO sessions (model, target, options, version, threads, seed, started,"
                  " ended, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  int next = 0;
  for (const std::string* text : {&s.model, &s.target, &s.options, &s.version}) {
    add.bind(next++, *text);
  }
  add.bind(next++, std::int64_t{s.threads});
  add.bind(next++, static_cast<std::int64_t>(s.seed));
  add.bind(next++, s.started);
  add.bind(next++, s.ended);
  add.bind(next++, s.state.empty() || s.state == "running" ? running_here() : s.state);
  TESSERA_DO(finish(add));
  const std::int64_t id = impl_->connection.last_id();
  TESSERA_DO(transaction.commit());
  return id;
}

Result<void> Database::end_session(std::int64_t session, const std::string& state) {
  const std::lock_guard lock(impl_->writing);
  TESSERA_TRY(Transaction transaction, Transaction::begin(impl_->connection));
  TESSERA_TRY(Statement end,
              impl_->connection.prepare("UPDATE sessions SET state = ?, ended = strftime('%s', "
                                        "'now') WHERE id = ? RETURNING id"));
  end.bind(0, state);
  end.bind(1, session);
  TESSERA_TRY(const bool known, end.step());
  if (!known) {
    return make_error(ErrorCode::kInvalidArgument, "{}: has no session {}",
                      impl_->connection.path(), session);
  }
  end.reset();
  return transaction.commit();
}

Result<void> Database::add_tasks(const std::vector<TaskRow>& tasks) {
  const std::lock_guard lock(impl_->writing);
  TESSERA_TRY(Transaction transaction, Transaction::begin(impl_->connection));
  TESSERA_TRY(Statement add, impl_->connection.prepare(
                                 "INSERT OR IGNORE INTO tasks (key, name, definition, flops, bytes)"
                                 " VALUES (?, ?, ?, ?, ?)"));
  for (const TaskRow& task : tasks) {
    bind_task(task, add);
    TESSERA_DO(finish(add));
  }
  return transaction.commit();
}

Result<void> Database::append(const std::vector<Record>& records) {
  const std::lock_guard lock(impl_->writing);
  const auto write = [&]() -> Result<void> {
    TESSERA_TRY(Transaction transaction, Transaction::begin(impl_->connection));
    TESSERA_TRY(
        Statement add,
        impl_->connection.prepare(
            "INSERT INTO records (session, format, task, target, outcome, policy, threads,"
            " candidate, digest, reason, samples, seconds, calibration, build_ms, seed, trial,"
            " time, extra, schedule, quiet, subject, model, cold, evicted, unchecked, default_s,"
            " memory_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
            " ?, ?, ?, ?, ?)"));
    for (const Record& record : records) TESSERA_DO(impl_->insert(add, record));
    return transaction.commit();
  };
  Result<void> result = write();
  if (!result.ok()) impl_->forget();
  return result;
}

Result<bool> Database::is_outdated() const {
  TESSERA_TRY(const std::int64_t version, impl_->connection.query_integer("PRAGMA user_version"));
  return version < kContentVersion;
}

Result<void> Database::Impl::update_tasks(const std::function<TaskRow(const TaskRow&)>& update) {
  TESSERA_TRY(const std::vector<TaskRow> tasks, tasks_of(connection));
  TESSERA_TRY(Statement remove, connection.prepare("DELETE FROM tasks WHERE key = ?"));
  // Two tasks may turn out to be one.
  TESSERA_TRY(Statement add,
              connection.prepare("INSERT OR IGNORE INTO tasks (key, name, definition, flops, bytes)"
                                 " VALUES (?, ?, ?, ?, ?)"));
  for (const TaskRow& old : tasks) {
    const TaskRow now = update(old);
    if (now == old) continue;
    remove.bind(0, old.key);
    TESSERA_DO(finish(remove));
    bind_task(now, add);
    TESSERA_DO(finish(add));
  }
  return {};
}

Result<std::int64_t> Database::Impl::update_records(const std::function<void(Record*)>& update) {
  TESSERA_TRY(Statement read, connection.prepare(select + " WHERE r.id > ? AND f.text = 'tessera'"
                                                          " ORDER BY r.id LIMIT 1024"));
  TESSERA_TRY(Statement write,
              connection.prepare("UPDATE records SET task = ?, candidate = ?, schedule = ?,"
                                 " digest = ? WHERE id = ?"));
  std::int64_t changed = 0;
  for (std::int64_t last = 0;;) {
    std::vector<Record> batch;
    read.bind(0, last);
    for (;;) {
      TESSERA_TRY(const bool row, read.step());
      if (!row) break;
      TESSERA_TRY(Record record, record_of(read));
      batch.push_back(std::move(record));
    }
    if (batch.empty()) return changed;
    last = batch.back().id;
    for (Record& r : batch) {
      const Record old = r;
      update(&r);
      if (r == old) continue;
      bound_ids();
      ++changed;
      TESSERA_TRY(const std::int64_t task, intern(r.task));
      std::int64_t schedule = 0;
      if (!r.schedule.empty()) {
        TESSERA_TRY(schedule, intern_schedule(r));
      }
      write.bind(0, task);
      write.bind(1, r.candidate);
      write.bind(2, schedule);
      write.bind(3, r.schedule_digest);
      write.bind(4, r.id);
      TESSERA_DO(finish(write));
    }
  }
}

Result<std::int64_t> Database::update(const std::function<TaskRow(const TaskRow&)>& task,
                                      const std::function<void(Record*)>& record) {
  const std::lock_guard lock(impl_->writing);
  const auto write = [&]() -> Result<std::int64_t> {
    TESSERA_TRY(Transaction transaction, Transaction::begin(impl_->connection));
    TESSERA_DO(impl_->update_tasks(task));
    TESSERA_TRY(const std::int64_t changed, impl_->update_records(record));
    TESSERA_DO(impl_->connection.execute(
        fmt::format("PRAGMA user_version = {}", kContentVersion).c_str()));
    TESSERA_DO(transaction.commit());
    return changed;
  };
  Result<std::int64_t> result = write();
  if (!result.ok()) impl_->forget();
  return result;
}

Result<void> Database::visit(const Filter& filter,
                             const std::function<bool(const Record&)>& visit) const {
  TESSERA_TRY(Statement select,
              impl_->connection.prepare(impl_->select + condition(filter, impl_->version) +
                                        " ORDER BY r.id"));
  bind_filter(filter, select);
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return {};
    TESSERA_TRY(const Record record, impl_->record_of(select));
    if (!visit(record)) return {};
  }
}

Result<std::optional<Record>> Database::find(std::int64_t id) const {
  TESSERA_TRY(Statement select, impl_->connection.prepare(impl_->select + " WHERE r.id = ?"));
  select.bind(0, id);
  TESSERA_TRY(const bool row, select.step());
  if (!row) return std::optional<Record>();
  TESSERA_TRY(Record record, impl_->record_of(select));
  return std::optional<Record>(std::move(record));
}

Result<std::vector<Record>> Database::best(const Filter& filter, std::size_t count) const {
  std::string where = condition(filter, impl_->version);
  where += (where.empty() ? " WHERE " : " AND ") + fmt::format("r.outcome = {}", kTextOk);
  TESSERA_TRY(Statement select,
              impl_->connection.prepare(impl_->select + where +
                                        " AND r.seconds > 0 ORDER BY r.seconds, r.id"));
  bind_filter(filter, select);
  std::vector<Record> best;
  std::set<std::pair<std::string, std::string>> seen;  // task, candidate
  while (best.size() < count) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) break;
    TESSERA_TRY(Record record, impl_->record_of(select));
    if (seen.emplace(record.task, record.candidate).second) best.push_back(std::move(record));
  }
  return best;
}

Result<std::int64_t> Database::count(const Filter& filter) const {
  TESSERA_TRY(Statement select, impl_->connection.prepare("SELECT count(*) FROM records r" +
                                                          condition(filter, impl_->version)));
  bind_filter(filter, select);
  TESSERA_TRY(const bool row, select.step());
  return row ? select.integer(0) : std::int64_t{0};
}

Result<std::vector<SessionRow>> Database::sessions() const {
  TESSERA_TRY(
      Statement select,
      impl_->connection.prepare(
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
    s.state = state_now(select.text(9));
    s.records = select.integer(10);
  }
}

Result<std::vector<TaskRow>> Database::tasks() const { return tasks_of(impl_->connection); }

Result<std::vector<std::string>> Database::targets() const {
  TESSERA_TRY(Statement select,
              impl_->connection.prepare("SELECT text FROM texts WHERE text LIKE '% triple=%'"));
  std::vector<std::string> out;
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return out;
    out.push_back(select.text(0));
  }
}

Result<std::vector<TaskSummary>> Database::summaries(const Filter& filter) const {
  const std::string sql = fmt::format(
      "SELECT k.text, n, timed, best, subject FROM (SELECT r.task AS task, {3} AS subject,"
      " count(*) AS n,"
      " sum(r.outcome IN ({0}, {1})) AS timed,"
      " min(CASE WHEN r.outcome = {0} AND r.seconds > 0 THEN r.seconds END) AS best,"
      " min(r.id) AS first FROM records r{2} GROUP BY r.task, subject) JOIN texts k ON k.id = task"
      " ORDER BY first",
      kTextOk, kTextCensored, condition(filter, impl_->version),
      impl_->version < 3 ? "0" : "r.subject");
  TESSERA_TRY(Statement select, impl_->connection.prepare(sql));
  bind_filter(filter, select);
  std::vector<TaskSummary> rows;
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return rows;
    rows.push_back({.task = select.text(0),
                    .records = select.integer(1),
                    .timed = select.integer(2),
                    .best_s = select.real(3),
                    .subject = static_cast<Subject>(select.integer(4))});
  }
}

}  // namespace tessera::record
