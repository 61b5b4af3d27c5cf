// What the two engines of a database do, each in its own file: SQLite (sqlite_engine.cc) and
// PostgreSQL (postgres_engine.cc). Statement and Connection (statement.h) are how they are used.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/support/result.h"

namespace tessera::record {

// How long a file that another process holds, or a server that went away, is waited for: far longer
// than any one transaction or a restart takes.
inline constexpr std::chrono::milliseconds kPatience{60'000};

enum class OpenMode {
  kCreate,     // read and write; a file is made when absent
  kRead,       // read; beside writers
  kImmutable,  // read a file in a folder where nothing can be written
};

// One statement. Parameters ("?") and columns count from 0.
class Query {
 public:
  virtual ~Query() = default;
  virtual void bind(int parameter, std::int64_t value) = 0;
  virtual void bind(int parameter, double value) = 0;
  virtual void bind_text(int parameter, std::string_view text) = 0;
  virtual void bind_bytes(int parameter, std::string_view bytes) = 0;
  virtual Result<bool> step() = 0;
  virtual void reset() = 0;
  virtual std::int64_t integer(int column) const = 0;
  virtual double real(int column) const = 0;
  virtual std::string text(int column) const = 0;
  virtual std::string bytes(int column) const = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const std::string& name() const = 0;  // for people: without a secret
  virtual bool is_server() const = 0;           // PostgreSQL
  virtual Result<std::unique_ptr<Query>> prepare(std::string_view sql) = 0;
  // Statements without parameters.
  virtual Result<void> execute(const std::string& sql) = 0;
  virtual Result<void> begin() = 0;
  virtual Result<void> commit() = 0;
  virtual void roll_back() = 0;
  // Until somebody says NOTIFY `channel`, or so long; SQLite has no such thing and waits. The first
  // call returns at once: what was said before is not known.
  virtual void wait_for(const std::string& channel, std::chrono::milliseconds timeout) = 0;
  // Whether the last failure of this thread was none of the statement's own: the server went away
  // or asked to try again. Nothing of the transaction was written.
  virtual bool may_try_again() const = 0;
  // Whether the last commit of this thread lost its answer and was found out by the number of the
  // transaction alone: a server that crashed may have given the number to another.
  virtual bool commit_in_doubt() const = 0;
};

Result<std::unique_ptr<Engine>> open_sqlite(const std::string& path, OpenMode mode,
                                            std::chrono::milliseconds patience);
Result<std::unique_ptr<Engine>> open_postgres(const std::string& url, OpenMode mode,
                                              std::chrono::milliseconds patience);

}  // namespace tessera::record
