// Where tunings and collections write their records and find those of earlier ones.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/record/record.h"

namespace tessera::record {

struct Filter {  // empty fields match everything, but for the subject
  std::string task, format;
  std::vector<std::string> targets;  // any of them
  std::int64_t session = 0;
  int threads = 0;
  bool timed_only = false;  // whole or censored
  bool quiet = false;       // only those measured while nothing else used the cores
  std::optional<Subject> subject = Subject::kKernel;  // none: all
};

// A file of this machine (Database), or whatever keeps records for several. Safe to use from
// several threads. Errors: kIo with the reason, kUnavailable where it cannot be reached right now.
class RecordStore {
 public:
  virtual ~RecordStore() = default;

  virtual Result<std::int64_t> begin_session(const SessionRow& session) = 0;  // its id
  // The heartbeat: a session that is silent for minutes may be taken to be killed
  // (session_owner.h).
  virtual Result<void> session_seen(std::int64_t session) = 0;
  virtual Result<void> end_session(std::int64_t session, const std::string& state) = 0;
  virtual Result<void> add_tasks(const std::vector<TaskRow>& tasks) = 0;  // again: no change
  // All or nothing. Ids are given in order; those in `records` are ignored.
  virtual Result<void> append(const std::vector<Record>& records) = 0;
  // Those of the session that have the task, the trial and the steps (by their digest) of one of
  // `records`. kIo where whoever asks may not delete.
  virtual Result<void> remove(std::int64_t session, const std::vector<Record>& records) = 0;

  // In order of id. Stops early when `visit` returns false. `visit` must not write to the store.
  virtual Result<void> visit(const Filter& filter,
                             const std::function<bool(const Record&)>& visit) const = 0;
  virtual Result<std::int64_t> count(const Filter& filter) const = 0;
  // The lines of target::to_text that its records may carry.
  virtual Result<std::vector<std::string>> targets() const = 0;
};

}  // namespace tessera::record
