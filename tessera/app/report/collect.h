// What the sessions of a database tell, gathered for a page.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/report/summary.h"
#include "tessera/trials/record/database.h"

namespace tessera::report {

struct Kernel {
  std::string id;         // in Report::by_kernel
  bool in_place = false;  // timed inside the running model: such times stand apart
  record::TaskRow task;
  KernelUse use;
  std::string label;  // its layers where they are known, else what it computes
  std::string what;   // that it computes: name, algorithm and shape
  std::string dtype;  // of its first operand, "f32"; empty: not known
  std::int64_t trials = 0, timed = 0;
  std::optional<record::Record> before, after;  // records of the default and of the winner

  double total_before_s() const { return use.uses_before * use.before_s; }
  double total_after_s() const { return use.uses_after * use.after_s; }
};

// The best so far, after an improvement.
struct Progress {
  std::int64_t trial = 0;  // from 1, over all sessions
  double time_s = 0;       // since the beginning, without the time between sessions
  double seconds = 0;
};

struct Failure {
  std::string outcome, reason;
  std::int64_t count = 0;
  std::size_t tasks = 0;
};

struct Noise {
  std::int64_t timed = 0, quiet = 0;
  // Middle half of the samples of a record, as a share of their median: of the median record, and
  // of one that nine of ten stay below.
  double spread = 0, wide_spread = 0;
  std::vector<Progress> calibration;  // times of the calibration kernel, thinned out
};

struct Report {
  std::string database;
  std::vector<record::SessionRow> sessions;  // that it is about, oldest first
  bool has_summary = false;           // else every kernel counts once and times are those of trials
  Summary summary;                    // of the last session that has one
  std::vector<Kernel> kernels;        // by the time that the untuned models spend in them
  std::vector<record::Record> plans;  // whole models, timed ones alone, the fastest share first
  std::int64_t trials = 0;
  std::vector<Progress> total;  // sum of the kernels of the tuned models, times their uses
  std::map<std::string, std::vector<Progress>> by_kernel;  // by Kernel::id
  std::vector<Failure> failures;                           // most frequent first
  Noise noise;

  double before_s() const;  // sums over kernels
  double after_s() const;
};

// Of the database at `path`, of one session; 0: of all sessions that tuned what the last one with
// records did, on its machine with its threads. kInvalidArgument: there is no such session, or it
// has no records.
Result<Report> collect(const record::Database& database, const std::string& path,
                       std::int64_t session);

}  // namespace tessera::report
