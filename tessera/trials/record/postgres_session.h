// One connection to a PostgreSQL server, with the statements that it knows.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/record/engine.h"
#include "tessera/trials/record/postgres_library.h"

namespace tessera::record {

struct PostgresClear {
  const PostgresLibrary* library;
  void operator()(pg_result* result) const { library->clear(result); }
};
using PostgresResult = std::unique_ptr<pg_result, PostgresClear>;

// What went wrong, and whether trying again may help: the server went away, or two transactions
// were in each other's way.
struct PostgresFailure {
  Error error;
  bool may_try_again = false;
};

struct PostgresParameters {
  std::vector<std::string> values;
  std::vector<int> formats;  // 0: text, 1: bytes; -1: NULL
  void set(int parameter, std::string value, int format);
};

class PostgresSession {
 public:
  // `url` has no password. kUnavailable where the server cannot be reached or does not let us in.
  static Result<std::unique_ptr<PostgresSession>> connect(const PostgresLibrary& library,
                                                          const std::string& url, OpenMode mode);
  ~PostgresSession() { library_.finish(connection_); }
  PostgresSession(const PostgresSession&) = delete;
  PostgresSession& operator=(const PostgresSession&) = delete;

  bool lost() const { return library_.status(connection_) != kPgConnectionOk; }
  bool in_transaction() const { return library_.transaction_status(connection_) != kPgIdle; }

  PostgresResult execute(const std::string& sql);  // without parameters
  // The whole result at once.
  PostgresResult run(const std::string& sql, const PostgresParameters& parameters);
  // The first of its rows, one a result; next() has the others and, at the end, null.
  PostgresResult start(const std::string& sql, const PostgresParameters& parameters);
  PostgresResult next();

  // False when the connection is gone.
  bool wait_for_notification(std::chrono::milliseconds timeout);

  bool succeeded(const PostgresResult& result) const;
  std::string state_of(const PostgresResult& result) const;  // SQLSTATE; empty: none
  PostgresFailure failure_of(const PostgresResult& result) const;
  const PostgresLibrary& library() const { return library_; }
  pg_conn* handle() const { return connection_; }

 private:
  PostgresSession(const PostgresLibrary& library, pg_conn* connection, std::string name)
      : library_(library), connection_(connection), name_(std::move(name)) {}
  std::string error_text(const PostgresResult& result, int which) const;
  PostgresResult own(pg_result* result) const { return {result, PostgresClear{&library_}}; }
  // Null and its name in `*name`, or what preparing it ended with.
  PostgresResult prepare(const std::string& sql, std::size_t parameters, std::string* name);

  const PostgresLibrary& library_;
  pg_conn* connection_;
  std::string name_;  // for people
  std::unordered_map<std::string, std::string> prepared_;
  std::int64_t next_name_ = 0;
};

// A failure to connect that waiting does not mend: a wrong password, a database that is not there.
bool is_refusal(const Error& error);
// The server is there and will let us in soon.
bool is_starting(const Error& error);

}  // namespace tessera::record
