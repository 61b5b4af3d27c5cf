// JSON lines of records that a measurement adds to, and goes on with after an interruption.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "tessera/trials/record/row.h"

namespace tessera::runner {

class RecordFile {
 public:
  // Creates it, or reads what is there; a last line without an end is dropped. kInvalidArgument
  // names the line that is not a row; kUnavailable: another process adds to the file.
  static Result<RecordFile> open(const std::string& path);
  RecordFile(RecordFile&& other) noexcept;
  RecordFile& operator=(RecordFile&&) = delete;
  ~RecordFile();

  // A record of this candidate of the task with so many threads is there.
  bool has(const record::Record& like) const;
  // Seconds of the fastest; 0: none.
  double best_seconds(const std::string& task, int threads) const;
  std::int64_t next_session() const { return sessions_ + 1; }

  // The line is in the file when it returns. A task that is there already is not written again.
  Result<void> append(const record::Row& row);

 private:
  explicit RecordFile(std::string path) : path_(std::move(path)) {}
  Result<void> read();
  void know(const record::Row& row);

  std::string path_;
  int fd_ = -1;
  std::int64_t sessions_ = 0;
  std::set<std::string> tasks_;
  std::set<std::uint64_t> known_;  // hashes of task, threads and candidate
  std::map<std::pair<std::string, int>, double> best_;
};

}  // namespace tessera::runner
