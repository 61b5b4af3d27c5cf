#include "tessera/trials/record/database.h"

#include <ctime>
#include <filesystem>
#include <set>
#include <utility>

#include "tessera/trials/record/database_impl.h"
#include "tessera/trials/record/database_name.h"
#include "tessera/trials/record/schema.h"
#include "tessera/trials/record/session_owner.h"

namespace tessera::record {
namespace {

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

// Seconds by the clock of whoever keeps the tables: those of machines may be hours apart.
const char* now_sql(const Connection& connection) {
  return connection.is_server() ? "extract(epoch FROM clock_timestamp())::bigint"
                                : "CAST(strftime('%s', 'now') AS INTEGER)";
}

// `ended` of a session that runs is when it was seen last.
Result<void> keep_seen(const Connection& connection, std::int64_t session) {
  return connection.execute(
      fmt::format("UPDATE sessions SET ended = {} WHERE id = {} AND state LIKE 'running %'",
                  now_sql(connection), session));
}

}  // namespace

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::open(const std::string& place, std::int64_t max_bytes,
                                std::chrono::milliseconds patience) {
  if (!is_server_url(place)) {
    std::error_code error;
    if (std::filesystem::is_directory(place, error)) {
      return make_error(ErrorCode::kIo, "{}: is a folder", place);
    }
    const std::filesystem::path folder = std::filesystem::path(place).parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
      return make_error(ErrorCode::kIo, "{}: there is no folder {}", place, folder.string());
    }
  }
  TESSERA_TRY(Connection connection, Connection::open(place, Connection::Mode::kCreate, patience));
  TESSERA_DO(prepare_schema(connection));
  if (max_bytes > 0 && !connection.is_server()) {
    TESSERA_TRY(const std::int64_t page, connection.query_integer("PRAGMA page_size"));
    const std::int64_t pages =
        std::max<std::int64_t>(1, max_bytes / std::max<std::int64_t>(1, page));
    TESSERA_DO(connection.execute(fmt::format("PRAGMA max_page_count = {}", pages)));
  }
  return Database(std::make_unique<Impl>(std::move(connection), kSchemaVersion));
}

Result<Database> Database::open_read_only(const std::string& place,
                                          std::chrono::milliseconds patience) {
  const bool server = is_server_url(place);
  std::error_code error;
  if (!server && std::filesystem::is_directory(place, error)) {
    return make_error(ErrorCode::kIo, "{}: is a folder", place);
  }
  if (!server && !std::filesystem::exists(place, error)) {
    return make_error(ErrorCode::kUnavailable, "{}: there is no such database", place);
  }
  std::int64_t version = kSchemaVersion;
  const auto open = [&](Connection::Mode mode) -> Result<Connection> {
    TESSERA_TRY(Connection connection, Connection::open(place, mode, patience));
    TESSERA_TRY(version, check_schema(connection));
    return connection;
  };
  Result<Connection> connection = open(Connection::Mode::kRead);
  // WAL needs a file beside the database; where none can be made nobody else writes either.
  if (!server && !connection.ok() && !std::filesystem::exists(place + "-wal", error)) {
    Result<Connection> again = open(Connection::Mode::kImmutable);
    if (again.ok()) connection = std::move(again);
  }
  if (!connection.ok()) return connection.error();
  return Database(std::make_unique<Impl>(std::move(connection).value(), version));
}

Result<std::int64_t> Database::begin_session(const SessionRow& s) {
  const std::lock_guard lock(impl_->writing);
  std::int64_t id = 0;
  SessionRow kept = s;
  if (s.state.empty() || s.state == "running") kept.state = running_here();
  const auto add_row = [&]() -> Result<void> {
    TESSERA_TRY(Statement add,
                impl_->connection.prepare(
                    "INSERT INTO sessions (model, target, options, version, threads, seed, started,"
                    " ended, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"));
    bind_session(kept, add);
    TESSERA_TRY([[maybe_unused]] const bool row, add.step());
    id = add.integer(0);
    add.reset();
    return keep_seen(impl_->connection, id);
  };
  TESSERA_DO(impl_->connection.transact(add_row, [&]() -> Result<bool> {
    TESSERA_TRY(Statement find,
                impl_->connection.prepare("SELECT 1 FROM sessions WHERE id = ? AND state = ?"));
    find.bind(0, id);
    find.bind(1, kept.state);
    return find.step();
  }));
  return id;
}

Result<void> Database::session_seen(std::int64_t session) {
  const std::lock_guard lock(impl_->writing);
  return keep_seen(impl_->connection, session);
}

Result<void> Database::end_session(std::int64_t session, const std::string& state) {
  const std::lock_guard lock(impl_->writing);
  return impl_->connection.transact([&]() -> Result<void> {
    TESSERA_TRY(Statement end,
                impl_->connection.prepare(
                    "UPDATE sessions SET state = ?, ended = ? WHERE id = ? RETURNING id"));
    end.bind(0, state);
    end.bind(1, static_cast<std::int64_t>(std::time(nullptr)));
    end.bind(2, session);
    TESSERA_TRY(const bool known, end.step());
    if (!known) {
      return make_error(ErrorCode::kInvalidArgument, "{}: has no session {}",
                        impl_->connection.name(), session);
    }
    end.reset();
    return {};
  });
}

Result<void> Database::add_tasks(const std::vector<TaskRow>& tasks) {
  const std::lock_guard lock(impl_->writing);
  return impl_->connection.transact([&]() -> Result<void> {
    TESSERA_TRY(Statement add,
                impl_->connection.prepare("INSERT INTO tasks (key, name, definition, flops, bytes)"
                                          " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"));
    for (const TaskRow& task : tasks) {
      bind_task(task, add);
      TESSERA_DO(add.finish());
    }
    return {};
  });
}

Result<void> Database::append(const std::vector<Record>& records) {
  const std::lock_guard lock(impl_->writing);
  if (records.empty()) return {};
  bool again = false;
  std::int64_t last = 0;  // its id
  const auto write = [&]() -> Result<void> {
    if (std::exchange(again, true)) impl_->forget();
    TESSERA_DO(impl_->intern_all(records));
    TESSERA_TRY(Statement add,
                impl_->connection.prepare(std::string(kInsertRecord) + " RETURNING id"));
    for (const Record& record : records) {
      TESSERA_DO(impl_->bind_record(add, record));
      TESSERA_TRY([[maybe_unused]] const bool row, add.step());
      last = add.integer(0);
      add.reset();
    }
    return {};
  };
  Result<void> result = impl_->connection.transact(write, [&]() -> Result<bool> {
    TESSERA_TRY(Statement find,
                impl_->connection.prepare("SELECT 1 FROM records WHERE id = ? AND session = ? AND "
                                          "digest = ? AND trial = ? AND time = ?"));
    const Record& r = records.back();
    find.bind(0, last);
    find.bind(1, r.session);
    find.bind(2, r.schedule_digest);
    find.bind(3, r.trial);
    find.bind(4, r.unix_time);
    return find.step();
  });
  if (!result.ok()) impl_->forget();
  return result;
}

Result<bool> Database::is_outdated() const {
  TESSERA_TRY(const std::int64_t version, content_version(impl_->connection));
  return version < kContentVersion;
}

Result<void> Database::Impl::update_tasks(const std::function<TaskRow(const TaskRow&)>& update) {
  TESSERA_TRY(const std::vector<TaskRow> tasks, tasks_of(connection));
  TESSERA_TRY(Statement remove, connection.prepare("DELETE FROM tasks WHERE key = ?"));
  // Two tasks may turn out to be one.
  TESSERA_TRY(Statement add,
              connection.prepare("INSERT INTO tasks (key, name, definition, flops, bytes)"
                                 " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"));
  for (const TaskRow& old : tasks) {
    const TaskRow now = update(old);
    if (now == old) continue;
    remove.bind(0, old.key);
    TESSERA_DO(remove.finish());
    bind_task(now, add);
    TESSERA_DO(add.finish());
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
      TESSERA_DO(write.finish());
    }
  }
}

Result<std::int64_t> Database::update(const std::function<TaskRow(const TaskRow&)>& task,
                                      const std::function<void(Record*)>& record) {
  const std::lock_guard lock(impl_->writing);
  std::int64_t changed = 0;
  bool again = false;
  const Result<void> result = impl_->connection.transact([&]() -> Result<void> {
    if (std::exchange(again, true)) impl_->forget();
    TESSERA_DO(impl_->update_tasks(task));
    TESSERA_TRY(changed, impl_->update_records(record));
    return keep_content_version(impl_->connection);
  });
  if (result.ok()) return changed;
  impl_->forget();
  return result.error();
}

const std::string& Database::name() const { return impl_->connection.name(); }

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
  TESSERA_TRY(std::vector<SessionRow> rows, sessions_of(impl_->connection));
  TESSERA_TRY(const std::int64_t now, impl_->connection.query_integer(
                                          fmt::format("SELECT {}", now_sql(impl_->connection))));
  for (SessionRow& row : rows) {
    row.state = state_now(row.state, row.ended > 0 ? now - row.ended : -1);
    if (row.state == "running") row.ended = 0;
  }
  return rows;
}

Result<std::vector<TaskRow>> Database::tasks() const { return tasks_of(impl_->connection); }

Result<std::vector<std::string>> Database::targets() const {
  TESSERA_TRY(
      Statement select,
      impl_->connection.prepare("SELECT text FROM texts WHERE text LIKE '% triple=%' ORDER BY id"));
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
      " sum(CASE WHEN r.outcome IN ({0}, {1}) THEN 1 ELSE 0 END) AS timed,"
      " min(CASE WHEN r.outcome = {0} AND r.seconds > 0 THEN r.seconds END) AS best,"
      " min(r.id) AS first FROM records r{2} GROUP BY r.task, subject) counted JOIN texts k ON "
      "k.id = task"
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
