// The records of tuning, in one SQLite file (WAL) or in a database of a PostgreSQL server: several
// processes may use it at once, and a torn write loses at most the batch being written. Errors: kIo
// with the reason (no space left, read-only, damaged), kUnavailable when another process holds the
// file, or the server cannot be reached, for a minute; after each of them the database can be used
// again. A server that goes away in between is connected to again, and nothing is written twice.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/record/engine.h"
#include "tessera/trials/record/record_store.h"

namespace tessera::record {

// The records of one task and subject, counted.
struct TaskSummary {
  std::string task;  // key
  std::int64_t records = 0, timed = 0;
  double best_s = 0;  // fastest that was measured whole; 0: none
  Subject subject = Subject::kKernel;
};

// Which records to remove: those that fit all that is given.
struct PruneFilter {
  std::int64_t before = 0;   // unix seconds; 0: any
  std::int64_t session = 0;  // 0: any
  std::string machine;       // text of a target, or the word that it begins with; empty: any
};

struct Pruned {
  std::int64_t records = 0, sessions = 0;  // sessions: that have no records any more
};

// Safe to use from several threads.
class Database final : public RecordStore {
 public:
  // `place`: a file, made when absent, or a URL (database_name.h). kIo when it cannot be had or is
  // not a database; kUnsupported when a newer version wrote it; kUnavailable when there is no such
  // server or no libpq. `max_bytes` > 0: a larger file counts as a full disk.
  static Result<Database> open(const std::string& place, std::int64_t max_bytes = 0,
                               std::chrono::milliseconds patience = kPatience);
  // It must exist (kUnavailable) and no record in it is changed.
  static Result<Database> open_read_only(const std::string& place,
                                         std::chrono::milliseconds patience = kPatience);
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database() override;

  Result<std::int64_t> begin_session(const SessionRow& session) override;
  Result<void> session_seen(std::int64_t session) override;
  Result<void> end_session(std::int64_t session, const std::string& state) override;
  Result<void> add_tasks(const std::vector<TaskRow>& tasks) override;
  // On disk when it returns.
  Result<void> append(const std::vector<Record>& records) override;
  Result<void> remove(std::int64_t session, const std::vector<Record>& records) override;

  // An older program wrote it: its tasks may have other keys and its records no steps.
  Result<bool> is_outdated() const;
  // All tasks and our own records as `task` and `record` change them (key, candidate, steps,
  // digest), all or nothing; it is no longer outdated then. Returns the number of records that
  // changed.
  Result<std::int64_t> update(const std::function<TaskRow(const TaskRow&)>& task,
                              const std::function<void(Record*)>& record);

  // All that `other` has, with the same ids, all or nothing; this one must be empty
  // (kInvalidArgument). Returns the number of records.
  Result<std::int64_t> copy_from(const Database& other);
  // Records of sessions that still run stay. Texts and schedules stay as well: other writers may
  // know their ids. `only_count`: nothing is removed.
  Result<Pruned> prune(const PruneFilter& filter, bool only_count);

  const std::string& name() const;  // as given, for people
  Result<void> visit(const Filter& filter,
                     const std::function<bool(const Record&)>& visit) const override;
  Result<std::optional<Record>> find(std::int64_t id) const;
  // Fastest first, timed and not censored, distinct candidates.
  Result<std::vector<Record>> best(const Filter& filter, std::size_t count) const;
  Result<std::int64_t> count(const Filter& filter) const override;
  Result<std::vector<SessionRow>> sessions() const;
  Result<std::vector<TaskRow>> tasks() const;
  Result<std::vector<std::string>> targets() const override;
  // Of every task and subject that has matching records, in order of their first.
  Result<std::vector<TaskSummary>> summaries(const Filter& filter) const;

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::record
