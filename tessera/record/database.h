// The records of tuning in one SQLite file (WAL): several processes may use it at once, and a
// torn write loses at most the batch being written. Errors: kIo with the reason (no space left,
// read-only, damaged), kUnavailable when another process holds it for a minute; after each of them
// the database can be used again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/record/record.h"
#include "tessera/support/result.h"

namespace tessera::record {

struct Filter {  // empty fields match everything
  std::string task, format;
  std::vector<std::string> targets;  // any of them
  std::int64_t session = 0;
  int threads = 0;
  bool timed_only = false;  // whole or censored
};

// The records of one task, counted.
struct TaskSummary {
  std::string task;  // key
  std::int64_t records = 0, timed = 0;
  double best_s = 0;  // fastest that was measured whole; 0: none
};

// Safe to use from several threads.
class Database {
 public:
  // Creates the file when absent. kIo when it cannot be had or is no database; kUnsupported when a
  // newer version wrote it.
  // `max_bytes` > 0: a larger file counts as a full disk.
  static Result<Database> open(const std::string& path, std::int64_t max_bytes = 0);
  // The file must exist (kUnavailable) and no record in it is changed.
  static Result<Database> open_read_only(const std::string& path);
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  Result<std::int64_t> begin_session(const SessionRow& session);
  Result<void> end_session(std::int64_t session, const std::string& state);
  Result<void> add_task(const TaskRow& task);  // again: no change
  // All or nothing, on disk when it returns. Ids are given in order; those in `records` are
  // ignored.
  Result<void> append(const std::vector<Record>& records);

  // In order of id. Stops early when `visit` returns false. `visit` must not write to the database.
  Result<void> visit(const Filter& filter, const std::function<bool(const Record&)>& visit) const;
  Result<std::optional<Record>> find(std::int64_t id) const;
  // Fastest first, timed and not censored, distinct candidates.
  Result<std::vector<Record>> best(const Filter& filter, std::size_t count) const;
  Result<std::int64_t> count(const Filter& filter) const;
  Result<std::vector<SessionRow>> sessions() const;
  Result<std::vector<TaskRow>> tasks() const;
  // The lines of target::to_text that its records may carry.
  Result<std::vector<std::string>> targets() const;
  // Of every task that has matching records, in order of their first.
  Result<std::vector<TaskSummary>> summaries(const Filter& filter) const;

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::record
