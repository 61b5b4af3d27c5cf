// SQLite as RAII: one connection, statements, transactions, errors with their reason.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tessera::record {

// One SQL statement. Parameters and columns count from 0.
class Statement {
 public:
  Statement(sqlite3* connection, sqlite3_stmt* handle, std::string path);

  void bind(int parameter, std::int64_t value);
  void bind(int parameter, double value);
  void bind(int parameter, std::string_view text);
  void bind_samples(int parameter, const std::vector<double>& samples);
  void bind_ids(int parameter, const std::vector<std::int64_t>& ids);  // none negative

  // True: a row is there. The statement starts over, with nothing bound, after false or an error.
  Result<bool> step();
  // One row is enough.
  void reset();

  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::vector<double> samples(int column) const;
  std::vector<std::int64_t> ids(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const;
  };
  sqlite3* connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  std::string path_;
};

class Connection {
 public:
  enum class Mode {
    kCreate,     // read and write; the file is made when absent
    kRead,       // read; beside writers
    kImmutable,  // read a file in a folder where nothing can be written
  };
  static Result<Connection> open(const std::string& path, Mode mode);

  Result<Statement> prepare(std::string_view sql) const;
  Result<void> execute(const char* sql) const;
  // The first column of the first row; 0 without rows.
  Result<std::int64_t> query_integer(std::string_view sql) const;
  std::int64_t last_id() const;
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  Connection(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;

  friend class Transaction;
};

// Writes begin at once, so that a second writer waits instead of failing half-way. Rolls back
// unless committed.
class Transaction {
 public:
  static Result<Transaction> begin(const Connection& connection);
  Transaction(Transaction&& other) noexcept : connection_(other.connection_) {
    other.connection_ = nullptr;
  }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Result<void> commit();

 private:
  explicit Transaction(const Connection* connection) : connection_(connection) {}
  const Connection* connection_;
};

}  // namespace tessera::record
