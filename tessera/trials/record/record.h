// One measured (or failed) trial, as it is kept for years.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::record {

// What was timed. Times of different subjects are not compared with each other.
enum class Subject : std::uint8_t {
  kKernel,   // a kernel alone, called again and again
  kInPlace,  // a kernel inside a running model
  kModel,    // a whole model with a plan: `task` is the key of the model
};
const char* to_text(Subject subject);  // "kernel", "in_place", "model"

struct Record {
  std::int64_t id = 0;             // of the database; 0 before it is stored
  std::int64_t session = 0;        // 0: none
  std::string format = "tessera";  // "ansor", "autotvm": candidate is then the foreign text
  std::string task;                // key
  std::string target;              // one line, target::to_text or the foreign target string
  int threads = 1;
  // The steps that ran: schedule::to_text. What learns from, tests or replays a record uses them.
  // Empty: not known, as of records that older programs wrote.
  std::string schedule;
  std::string schedule_digest;  // 16 hex digits of the text of the steps, known or not
  // Text of space::Space::to_text, of a whole model that of its decisions: for people and for
  // resuming.
  std::string candidate;
  std::string outcome;  // measure::to_text(Outcome)
  std::string reason;
  std::vector<double> samples_s;
  double seconds = 0;        // median, of whole models the 10th percentile; 0 for failures
  double default_s = 0;      // the default, timed in turns with it; 0: it was not
  double calibration_s = 0;  // of the calibration kernel, beside it
  double memory_s = 0;       // of the walk over memory, beside it; 0: not taken
  double build_ms = 0;
  bool quiet = false;  // nothing else used the cores; false: something did, or nobody looked
  Subject subject = Subject::kKernel;
  std::string model;               // key of the model that a kernel in place ran in
  bool cold = false;               // constants came from memory, not from a cache
  std::int64_t evicted_bytes = 0;  // of cold ones, read between two calls; 0: more than caches hold
  bool unchecked = false;          // outputs were compared with nothing
  std::string policy;
  std::uint64_t seed = 0;
  std::int64_t trial = 0;      // within task and session
  std::int64_t unix_time = 0;  // seconds
  std::string extra;           // JSON: what a foreign log says beyond this, for writing it back

  friend bool operator==(const Record&, const Record&) = default;
};

// What a task was, self-contained: the key alone could not rebuild it.
struct TaskRow {
  std::string key, name;
  std::string definition;  // te::to_text
  double flops = 0, bytes = 0;

  friend bool operator==(const TaskRow&, const TaskRow&) = default;
};

struct SessionRow {
  std::int64_t id = 0;
  std::string model, target, options, version;
  int threads = 1;
  std::uint64_t seed = 0;
  std::int64_t started = 0, ended = 0;  // unix seconds; ended 0: running or killed
  std::string state;                    // "running", "done", "budget", "interrupted", "imported"
  std::int64_t records = 0;             // counted when read

  friend bool operator==(const SessionRow&, const SessionRow&) = default;
};

}  // namespace tessera::record
