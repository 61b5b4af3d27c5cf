#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include <sqlite3.h>

#include "tessera/trials/record/engine.h"

namespace tessera::record {
namespace {

Error sqlite_error(sqlite3* connection, int code, const std::string& path) {
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
      return make_error(ErrorCode::kUnavailable,
                        "{}: another process holds it and did not let go of it in time", path);
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

class SqliteQuery final : public Query {
 public:
  SqliteQuery(sqlite3* connection, sqlite3_stmt* handle, const std::string& path)
      : connection_(connection), handle_(handle), path_(path) {}

  void bind(int parameter, std::int64_t value) override {
    sqlite3_bind_int64(handle_.get(), parameter + 1, value);
  }
  void bind(int parameter, double value) override {
    sqlite3_bind_double(handle_.get(), parameter + 1, value);
  }
  // A null pointer would be NULL, not the empty text.
  void bind_text(int parameter, std::string_view text) override {
    sqlite3_bind_text64(handle_.get(), parameter + 1, text.empty() ? "" : text.data(), text.size(),
                        SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  void bind_bytes(int parameter, std::string_view bytes) override {
    sqlite3_bind_blob64(handle_.get(), parameter + 1, bytes.empty() ? "" : bytes.data(),
                        bytes.size(), SQLITE_TRANSIENT);
  }

  Result<bool> step() override {
    const int code = sqlite3_step(handle_.get());
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) {
      reset();
      return false;
    }
    const Error error = sqlite_error(connection_, code, path_);
    reset();
    return error;
  }
  void reset() override {
    sqlite3_reset(handle_.get());
    sqlite3_clear_bindings(handle_.get());
  }

  std::int64_t integer(int column) const override {
    return sqlite3_column_int64(handle_.get(), column);
  }
  double real(int column) const override { return sqlite3_column_double(handle_.get(), column); }
  std::string text(int column) const override {
    return cell(sqlite3_column_text(handle_.get(), column), column);
  }
  std::string bytes(int column) const override {
    return cell(sqlite3_column_blob(handle_.get(), column), column);
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
  };
  std::string cell(const void* bytes, int column) const {
    if (bytes == nullptr) return "";
    return std::string(static_cast<const char*>(bytes),
                       static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column)));
  }

  sqlite3* connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  const std::string& path_;  // of the engine
};

class SqliteEngine final : public Engine {
 public:
  SqliteEngine(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  const std::string& name() const override { return path_; }
  bool is_server() const override { return false; }

  Result<std::unique_ptr<Query>> prepare(std::string_view sql) override {
    sqlite3_stmt* handle = nullptr;
    const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                        &handle, nullptr);
    if (code != SQLITE_OK) return sqlite_error(handle_.get(), code, path_);
    return std::unique_ptr<Query>(std::make_unique<SqliteQuery>(handle_.get(), handle, path_));
  }
  Result<void> execute(const std::string& sql) override {
    const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return sqlite_error(handle_.get(), code, path_);
    return {};
  }
  Result<void> begin() override {
    transaction_.lock();
    Result<void> begun = execute("BEGIN IMMEDIATE");
    if (!begun.ok()) transaction_.unlock();
    return begun;
  }
  Result<void> commit() override {
    TESSERA_DO(execute("COMMIT"));
    transaction_.unlock();
    return {};
  }
  // After some failures SQLite has rolled back by itself.
  void roll_back() override {
    if (sqlite3_get_autocommit(handle_.get()) == 0) {
      sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
    transaction_.unlock();
  }
  void wait_for(const std::string&, std::chrono::milliseconds timeout) override {
    std::this_thread::sleep_for(timeout);
  }
  bool may_try_again() const override { return false; }
  bool commit_in_doubt() const override { return false; }

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
  std::mutex transaction_;  // held from begin() to its end: a connection has one at a time
};

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
    if (code != SQLITE_OK || now != value) return sqlite_error(handle, code, path);
  }
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kMostValueBytes);
  sqlite3_limit(handle, SQLITE_LIMIT_SQL_LENGTH, 1 << 20);
  sqlite3_limit(handle, SQLITE_LIMIT_EXPR_DEPTH, 100);
  sqlite3_limit(handle, SQLITE_LIMIT_COLUMN, 100);
  sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
  return {};
}

}  // namespace

Result<std::unique_ptr<Engine>> open_sqlite(const std::string& path, OpenMode mode,
                                            std::chrono::milliseconds patience) {
  sqlite3* handle = nullptr;
  const bool immutable = mode == OpenMode::kImmutable;
  // A reader opens for writing too: the last one out then tidies what a killed writer left.
  const int flags = immutable ? SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
                              : SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX |
                                    (mode == OpenMode::kCreate ? SQLITE_OPEN_CREATE : 0);
  const std::string name = immutable ? immutable_uri(path) : path;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags, nullptr);
  auto engine = std::make_unique<SqliteEngine>(handle, path);
  if (code != SQLITE_OK) return sqlite_error(handle, code, path);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, static_cast<int>(patience.count()));
  TESSERA_DO(defend(handle, path));
  TESSERA_DO(engine->execute("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0"));
  if (mode == OpenMode::kRead) TESSERA_DO(engine->execute("PRAGMA query_only = ON"));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace tessera::record
