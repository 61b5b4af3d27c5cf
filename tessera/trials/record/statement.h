// SQL as RAII, on either engine: one connection, statements, transactions, errors with their
// reason. Statements are written once: for PostgreSQL "?" becomes "$1" and so on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/record/engine.h"

namespace tessera::record {

// One SQL statement. Parameters and columns count from 0.
class Statement {
 public:
  explicit Statement(std::unique_ptr<Query> query) : query_(std::move(query)) {}

  void bind(int parameter, std::int64_t value) { query_->bind(parameter, value); }
  void bind(int parameter, double value) { query_->bind(parameter, value); }
  void bind(int parameter, std::string_view text) { query_->bind_text(parameter, text); }
  void bind_bytes(int parameter, std::string_view bytes) { query_->bind_bytes(parameter, bytes); }
  void bind_samples(int parameter, const std::vector<double>& samples);
  void bind_ids(int parameter, const std::vector<std::int64_t>& ids);  // none negative

  // True: a row is there. The statement starts over, with nothing bound, after false or an error.
  Result<bool> step() { return query_->step(); }
  // For one that returns nothing, or whose rows nobody wants.
  Result<void> finish();
  // One row is enough.
  void reset() { query_->reset(); }

  std::int64_t integer(int column) const { return query_->integer(column); }
  double real(int column) const { return query_->real(column); }
  std::string text(int column) const { return query_->text(column); }
  std::string bytes(int column) const { return query_->bytes(column); }
  std::vector<double> samples(int column) const;
  std::vector<std::int64_t> ids(int column) const;

 private:
  std::unique_ptr<Query> query_;
};

// Safe to use from several threads; a transaction belongs to the thread that began it.
class Connection {
 public:
  using Mode = OpenMode;
  // `place` is a file, or the URL of a PostgreSQL database (database_name.h).
  static Result<Connection> open(const std::string& place, Mode mode,
                                 std::chrono::milliseconds patience = kPatience);

  // Outside of a transaction only what may run twice: the server may go away in between.
  Result<Statement> prepare(std::string_view sql) const;
  Result<void> execute(const std::string& sql) const { return engine_->execute(sql); }
  // The same for tables, with types as SQLite has them.
  Result<void> define(const std::string& sql) const;
  // The first column of the first row; 0 without rows.
  Result<std::int64_t> query_integer(std::string_view sql) const;
  Result<bool> has_table(const std::string& name) const;
  const std::string& name() const { return engine_->name(); }
  bool is_server() const { return engine_->is_server(); }

  void wait_for(const std::string& channel, std::chrono::milliseconds timeout) const {
    engine_->wait_for(channel, timeout);
  }

  // `work` in a transaction, which is committed unless it fails; again when the server went away
  // or asked for it, as long as that helps. Nothing is written twice.
  Result<void> transact(const std::function<Result<void>()>& work) const;
  // The same. `written` looks for a row of `work` where a crash of the server leaves it in doubt;
  // without it what came of a transaction is told by its number alone.
  Result<void> transact(const std::function<Result<void>()>& work,
                        const std::function<Result<bool>()>& written) const;
  // The same without a transaction, for what may run twice.
  Result<void> repeat(const std::function<Result<void>()>& work) const;

 private:
  explicit Connection(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
  std::unique_ptr<Engine> engine_;

  friend class Transaction;
};

// Writes begin at once, so that a second writer waits instead of failing half-way. Rolls back
// unless committed.
class Transaction {
 public:
  static Result<Transaction> begin(const Connection& connection);
  Transaction(Transaction&& other) noexcept : engine_(other.engine_) { other.engine_ = nullptr; }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Result<void> commit();

 private:
  explicit Transaction(Engine* engine) : engine_(engine) {}
  Engine* engine_;
};

}  // namespace tessera::record
