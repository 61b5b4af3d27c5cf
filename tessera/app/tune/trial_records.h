// Where the measurements of a tuning or a collection go, and where earlier ones come from.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/app/tune/tune_problem.h"
#include "tessera/support/clock.h"
#include "tessera/trials/measure/measurer.h"
#include "tessera/trials/record/record_store.h"

namespace tessera::app {

struct RecordOptions {
  std::string database;  // file; empty: nothing is kept
  std::vector<TuneSubject> subjects;
  target::Target target;  // of the code
  int threads = 1;
  std::uint64_t seed = 1;
  std::string command;                                 // noted in the session
  record::Subject subject = record::Subject::kKernel;  // of the records that are read
  std::string version = {};  // of the program, noted in the session; empty: without its commit
};

// A plan of a model, timed as a whole in turns with the rules' plan.
struct PlanTrial {
  plan::Decisions decisions;
  std::string found_by;           // policy of the record
  std::vector<double> samples_s;  // of all rounds; none: it cannot be built or computes otherwise
  double seconds = 0, rules_s = 0;
  std::string reason;  // of a failure

  double share() const { return seconds / rules_s; }  // of the time of the rules' plan
};

// The session of one call in a database.
class TrialRecords {
 public:
  // kUnavailable with the path when the database cannot be had.
  static Result<TrialRecords> open(const RecordOptions& options,
                                   const std::vector<const task::Task*>& tasks);
  // Without a session: to read what earlier ones left. kUnavailable as open().
  static Result<TrialRecords> look(const RecordOptions& options);

  // Records of earlier sessions of this machine and these threads. kUnavailable as open().
  Result<void> visit(const std::string& task,
                     const std::function<void(const record::Record&)>& take) const;
  // The same until `take` says false.
  Result<void> visit_while(const std::string& task,
                           const std::function<bool(const record::Record&)>& take) const;
  Result<std::int64_t> count(const std::string& task) const;

  // `record` with the session, the target, the threads and the seed filled in; on disk after
  // flush().
  void add(record::Record record, std::int64_t machine = 0);
  // Drops what a machine of a fleet measured in this session. Returns what is to be said where it
  // stays in the database; empty: it is gone.
  std::string retract(std::int64_t machine);
  // A trial of the model; on disk when it returns, or as flush() says.
  bool add_plan(const graph::Graph& imported, const PlanTrial& trial);
  // Those of earlier sessions on this machine with these threads, timed ones alone, oldest first.
  Result<std::vector<PlanTrial>> earlier_plans(const graph::Graph& imported) const;
  // False, and error() says why, when they cannot be written; they are kept for the next time. Also
  // the heartbeat of the session.
  bool flush();
  bool end(const std::string& state);
  const std::string& error() const { return error_; }  // of what was written; empty: none
  std::int64_t session() const { return session_; }

 private:
  record::Filter filter_of(const std::string& task) const;
  bool written(const Result<void>& done);

  RecordOptions options_;
  std::string target_text_, error_;
  std::vector<std::string> targets_;            // texts of records that count here
  std::unique_ptr<record::RecordStore> store_;  // null: nothing is kept
  std::int64_t session_ = 0, plans_ = 0;
  std::vector<record::Record> unsaved_;
  std::vector<std::int64_t> unsaved_by_;  // machines
  // By machine of a fleet: tasks, trials and steps of what is on disk.
  std::map<std::int64_t, std::vector<record::Record>> saved_by_;
  Clock::time_point seen_ = Clock::now();
};

// The texts under which records of this machine are kept, whatever number of cores they name; never
// empty.
Result<std::vector<std::string>> targets_of_machine(const record::RecordStore& store,
                                                    const target::Target& target);

// Names a model in records, whatever its weights are, with the types in which it is computed.
std::string model_key(const graph::Graph& imported, const CompileOptions& how);
// Where trials in place ran: in the model alone or beside so many copies of it, whose times are not
// compared with each other.
std::string placed_key(const graph::Graph& imported, const CompileOptions& how, int copies);

// What a measurement of these steps says of itself; the rest of the record is the caller's.
record::Record record_of(const measure::Measurement& m, const std::string& schedule,
                         const measure::MachineState& machine);

}  // namespace tessera::app
