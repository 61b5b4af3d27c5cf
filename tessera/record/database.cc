#include "tessera/record/database.h"

#include <filesystem>
#include <mutex>
#include <set>
#include <unordered_map>

#include "tessera/record/schema.h"
#include "tessera/record/statement.h"

namespace tessera::record {
namespace {

constexpr const char* kSelect =
    "SELECT r.id, r.session, f.text, k.text, t.text, r.threads, r.candidate, r.digest, o.text,"
    " r.reason, r.samples, r.seconds, r.calibration, r.build_ms, p.text, r.seed, r.trial, r.time,"
    " r.extra FROM records r JOIN texts f ON f.id = r.format JOIN texts k ON k.id = r.task"
    " JOIN texts t ON t.id = r.target JOIN texts o ON o.id = r.outcome"
    " JOIN texts p ON p.id = r.policy";

Record record_of(const Statement& row) {
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
  return r;
}

// " WHERE ..." with the parameters of `filter` in order. A text that no record has matches nothing.
std::string condition(const Filter& filter) {
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

}  // namespace

struct Database::Impl {
  explicit Impl(Connection c) : connection(std::move(c)) {}

  Result<std::int64_t> intern(const std::string& text);
  Result<void> insert(Statement& statement, const Record& record);

  Connection connection;
  std::mutex writing;
  std::unordered_map<std::string, std::int64_t> texts;  // ids that are on disk or in this batch
};

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
  return Database(std::make_unique<Impl>(std::move(connection)));
}

Result<Database> Database::open_read_only(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return make_error(ErrorCode::kIo, "{}: is a folder", path);
  }
  if (!std::filesystem::exists(path, error)) {
    return make_error(ErrorCode::kUnavailable, "{}: there is no such database", path);
  }
  const auto open = [&](Connection::Mode mode) -> Result<Connection> {
    TESSERA_TRY(Connection connection, Connection::open(path, mode));
    TESSERA_DO(check_schema(connection));
    return connection;
  };
  Result<Connection> connection = open(Connection::Mode::kRead);
  // WAL needs a file beside the database; where none can be made nobody else writes either.
  if (!connection.ok() && !std::filesystem::exists(path + "-wal", error)) {
    Result<Connection> again = open(Connection::Mode::kImmutable);
    if (again.ok()) connection = std::move(again);
  }
  if (!connection.ok()) return connection.error();
  return Database(std::make_unique<Impl>(std::move(connection).value()));
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
  add.bind(next++, s.state.empty() ? "running" : s.state);
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

Result<void> Database::add_task(const TaskRow& task) {
  const std::lock_guard lock(impl_->writing);
  TESSERA_TRY(Transaction transaction, Transaction::begin(impl_->connection));
  TESSERA_TRY(Statement add, impl_->connection.prepare(
                                 "INSERT OR IGNORE INTO tasks (key, name, definition, flops, bytes)"
                                 " VALUES (?, ?, ?, ?, ?)"));
  add.bind(0, task.key);
  add.bind(1, task.name);
  add.bind(2, task.definition);
  add.bind(3, task.flops);
  add.bind(4, task.bytes);
  TESSERA_DO(finish(add));
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
            " time, extra) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    for (const Record& record : records) TESSERA_DO(impl_->insert(add, record));
    return transaction.commit();
  };
  Result<void> result = write();
  if (!result.ok()) impl_->texts.clear();  // some went with the batch
  return result;
}

Result<void> Database::visit(const Filter& filter,
                             const std::function<bool(const Record&)>& visit) const {
  TESSERA_TRY(Statement select,
              impl_->connection.prepare(kSelect + condition(filter) + " ORDER BY r.id"));
  bind_filter(filter, select);
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row || !visit(record_of(select))) return {};
  }
}

Result<std::optional<Record>> Database::find(std::int64_t id) const {
  TESSERA_TRY(Statement select,
              impl_->connection.prepare(std::string(kSelect) + " WHERE r.id = ?"));
  select.bind(0, id);
  TESSERA_TRY(const bool row, select.step());
  if (!row) return std::optional<Record>();
  return std::optional<Record>(record_of(select));
}

Result<std::vector<Record>> Database::best(const Filter& filter, std::size_t count) const {
  std::string where = condition(filter);
  where += (where.empty() ? " WHERE " : " AND ") + fmt::format("r.outcome = {}", kTextOk);
  TESSERA_TRY(
      Statement select,
      impl_->connection.prepare(kSelect + where + " AND r.seconds > 0 ORDER BY r.seconds, r.id"));
  bind_filter(filter, select);
  std::vector<Record> best;
  std::set<std::pair<std::string, std::string>> seen;  // task, candidate
  while (best.size() < count) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) break;
    Record record = record_of(select);
    if (seen.emplace(record.task, record.candidate).second) best.push_back(std::move(record));
  }
  return best;
}

Result<std::int64_t> Database::count(const Filter& filter) const {
  TESSERA_TRY(Statement select,
              impl_->connection.prepare("SELECT count(*) FROM records r" + condition(filter)));
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
    s.state = select.text(9);
    s.records = select.integer(10);
  }
}

Result<std::vector<TaskRow>> Database::tasks() const {
  TESSERA_TRY(Statement select, impl_->connection.prepare("SELECT key, name, definition, flops,"
                                                          " bytes FROM tasks ORDER BY id"));
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
      "SELECT k.text, n, timed, best FROM (SELECT r.task AS task, count(*) AS n,"
      " sum(r.outcome IN ({0}, {1})) AS timed,"
      " min(CASE WHEN r.outcome = {0} AND r.seconds > 0 THEN r.seconds END) AS best,"
      " min(r.id) AS first FROM records r{2} GROUP BY r.task) JOIN texts k ON k.id = task"
      " ORDER BY first",
      kTextOk, kTextCensored, condition(filter));
  TESSERA_TRY(Statement select, impl_->connection.prepare(sql));
  bind_filter(filter, select);
  std::vector<TaskSummary> rows;
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return rows;
    rows.push_back({.task = select.text(0),
                    .records = select.integer(1),
                    .timed = select.integer(2),
                    .best_s = select.real(3)});
  }
}

}  // namespace tessera::record
