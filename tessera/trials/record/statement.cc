#include "tessera/trials/record/statement.h"

#include <cstring>
#include <filesystem>

#include <sqlite3.h>

namespace tessera::record {
namespace {

// How long a writer waits for another: far longer than any one transaction takes.
constexpr int kBusyTimeoutMs = 60'000;

Error error_of(sqlite3* connection, int code, const std::string& path) {
  const char* said = connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  switch (code & 0xff) {
    case SQLITE_FULL:
      return make_error(ErrorCode::kIo,
                        "{}: no space is left ({}); nothing of this batch was written, what was "
                        "recorded before is kept",
                        path, said);
    case SQLITE_READONLY:
      return make_error(ErrorCode::kIo, "{}: is read-only", path);
    case SQLITE_NOTADB:
      return make_error(ErrorCode::kIo, "{}: is not a database", path);
    case SQLITE_CORRUPT:
      return make_error(ErrorCode::kIo, "{}: is damaged ({})", path, said);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return make_error(ErrorCode::kUnavailable, "{}: another process has held it for {} s", path,
                        kBusyTimeoutMs / 1000);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return make_error(ErrorCode::kIo, "{}: cannot be opened ({})", path, said);
    case SQLITE_IOERR: {
      const int system = connection != nullptr ? sqlite3_system_errno(connection) : 0;
      return make_error(ErrorCode::kIo, "{}: {}{}{}", path, said, system != 0 ? ": " : "",
                        system != 0 ? std::strerror(system) : "");
    }
    default:
      return make_error(ErrorCode::kIo, "{}: {}", path, said);
  }
}

}  // namespace

Statement::Statement(sqlite3* connection, sqlite3_stmt* handle, std::string path)
    : connection_(connection), handle_(handle), path_(std::move(path)) {}

void Statement::Finalize::operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }

void Statement::bind(int parameter, std::int64_t value) {
  sqlite3_bind_int64(handle_.get(), parameter + 1, value);
}

void Statement::bind(int parameter, double value) {
  sqlite3_bind_double(handle_.get(), parameter + 1, value);
}

void Statement::bind(int parameter, std::string_view text) {
  // A null pointer would be NULL, not the empty text.
  sqlite3_bind_text64(handle_.get(), parameter + 1, text.empty() ? "" : text.data(), text.size(),
                      SQLITE_TRANSIENT, SQLITE_UTF8);
}

void Statement::bind_samples(int parameter, const std::vector<double>& samples) {
  static_assert(sizeof(double) == 8);
  sqlite3_bind_blob64(handle_.get(), parameter + 1,
                      samples.empty() ? "" : static_cast<const void*>(samples.data()),
                      samples.size() * sizeof(double), SQLITE_TRANSIENT);
}

// Seven bits a byte, the lowest first; the highest bit says that more follow.
void Statement::bind_ids(int parameter, const std::vector<std::int64_t>& ids) {
  std::string bytes;
  for (const std::int64_t id : ids) {
    auto rest = static_cast<std::uint64_t>(id);
    for (; rest >= 0x80; rest >>= 7) bytes += static_cast<char>(0x80 | (rest & 0x7f));
    bytes += static_cast<char>(rest);
  }
  sqlite3_bind_blob64(handle_.get(), parameter + 1, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  const Error error = error_of(connection_, code, path_);
  reset();
  return error;
}

void Statement::reset() {
  sqlite3_reset(handle_.get());
  sqlite3_clear_bindings(handle_.get());
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}

double Statement::real(int column) const { return sqlite3_column_double(handle_.get(), column); }

std::string Statement::text(int column) const {
  const auto* bytes = sqlite3_column_text(handle_.get(), column);
  if (bytes == nullptr) return "";
  return std::string(reinterpret_cast<const char*>(bytes),
                     static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column)));
}

std::vector<double> Statement::samples(int column) const {
  const void* bytes = sqlite3_column_blob(handle_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
  std::vector<double> samples(size / sizeof(double));
  if (bytes != nullptr && !samples.empty()) {
    std::memcpy(samples.data(), bytes, samples.size() * sizeof(double));
  }
  return samples;
}

std::vector<std::int64_t> Statement::ids(int column) const {
  const auto* bytes = static_cast<const std::uint8_t*>(sqlite3_column_blob(handle_.get(), column));
  const int count = sqlite3_column_bytes(handle_.get(), column);
  std::vector<std::int64_t> out;
  std::uint64_t value = 0;
  int shift = 0;
  for (int i = 0; i < count; ++i) {
    if (shift < 63) value |= static_cast<std::uint64_t>(bytes[i] & 0x7f) << shift;
    shift += 7;
    if ((bytes[i] & 0x80) != 0) continue;
    out.push_back(static_cast<std::int64_t>(value));
    value = 0;
    shift = 0;
  }
  return out;
}

void Connection::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

namespace {

// Names of files may hold the characters that mean something in a URI.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", static_cast<unsigned>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

// More than any text of a record has.
constexpr int kMostValueBytes = 64 << 20;

// Files come from strangers: what is in them are rows, and nothing of them is run. Our tables have
// no views and no triggers, and statements are ours.
Result<void> defend(sqlite3* handle, const std::string& path) {
  const std::pair<int, int> settings[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                          {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                          {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                          {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}};
  for (const auto& [setting, value] : settings) {
    int now = -1;
    const int code = sqlite3_db_config(handle, setting, value, &now);
    if (code != SQLITE_OK || now != value) return error_of(handle, code, path);
  }
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kMostValueBytes);
  sqlite3_limit(handle, SQLITE_LIMIT_SQL_LENGTH, 1 << 20);
  sqlite3_limit(handle, SQLITE_LIMIT_EXPR_DEPTH, 100);
  sqlite3_limit(handle, SQLITE_LIMIT_COLUMN, 100);
  sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
  return {};
}

}  // namespace

Result<Connection> Connection::open(const std::string& path, Mode mode) {
  sqlite3* handle = nullptr;
  const bool immutable = mode == Mode::kImmutable;
  // A reader opens for writing too: the last one out then tidies what a killed writer left.
  const int flags = immutable ? SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
                              : SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX |
                                    (mode == Mode::kCreate ? SQLITE_OPEN_CREATE : 0);
  const std::string name = immutable ? immutable_uri(path) : path;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags, nullptr);
  Connection connection(handle, path);
  if (code != SQLITE_OK) return error_of(handle, code, path);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  TESSERA_DO(defend(handle, path));
  TESSERA_DO(connection.execute("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0"));
  if (mode == Mode::kRead) TESSERA_DO(connection.execute("PRAGMA query_only = ON"));
  return connection;
}

Result<Statement> Connection::prepare(std::string_view sql) const {
  sqlite3_stmt* handle = nullptr;
  const int code =
      sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &handle, nullptr);
  if (code != SQLITE_OK) return error_of(handle_.get(), code, path_);
  return Statement(handle_.get(), handle, path_);
}

Result<void> Connection::execute(const char* sql) const {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error_of(handle_.get(), code, path_);
  return {};
}

Result<std::int64_t> Connection::query_integer(std::string_view sql) const {
  TESSERA_TRY(Statement statement, prepare(sql));
  TESSERA_TRY(const bool row, statement.step());
  return row ? statement.integer(0) : std::int64_t{0};
}

std::int64_t Connection::last_id() const { return sqlite3_last_insert_rowid(handle_.get()); }

Result<Transaction> Transaction::begin(const Connection& connection) {
  TESSERA_DO(connection.execute("BEGIN IMMEDIATE"));
  return Transaction(&connection);
}

Transaction::~Transaction() {
  if (connection_ == nullptr) return;
  // After some failures SQLite has rolled back by itself.
  if (sqlite3_get_autocommit(connection_->handle_.get()) == 0) {
    sqlite3_exec(connection_->handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

Result<void> Transaction::commit() {
  TESSERA_DO(connection_->execute("COMMIT"));
  connection_ = nullptr;
  return {};
}

}  // namespace tessera::record
