// What is measured, and what came of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/scheduling/schedule/step.h"

namespace tessera::measure {

enum class Outcome : std::uint8_t {
  kOk,
  kCensored,       // stopped early: clearly slower than the incumbent; samples are a lower bound
  kInvalidStatic,  // refused before building
  kBuildError,
  kBuildTimeout,
  kRunError,  // a signal, an exit
  kRunTimeout,
  kWrongResult,
  kOutOfBounds,  // wrote into a guard zone
  kWorkerLost,   // the worker went away for a reason that is not the candidate's
  kCompilerBug,  // the compiler ended or threw: a defect of Tessera's, with its input in a file
};

const char* to_text(Outcome outcome);  // "ok", "build_error", ...: used in records
bool outcome_from_text(const std::string& text, Outcome* outcome);
inline bool is_timed(Outcome o) { return o == Outcome::kOk || o == Outcome::kCensored; }

struct Trial {
  std::uint64_t id = 0;  // of the caller
  std::string task;      // key of one of the measurer's tasks
  schedule::Schedule steps;
  double incumbent_s = 0;  // best time so far; 0: none. Scales deadlines and stops losers early
  bool final = false;      // measure fully, whatever the incumbent
  bool in_place = false;   // inside the running model (MeasureOptions::in_place), not alone
  bool together = false;   // ... in the same runs as the others of the batch
};

struct Built;  // messages.h

struct Measurement {
  std::uint64_t id = 0;
  Outcome outcome = Outcome::kOk;
  std::string reason;               // of a failure, for people
  std::vector<double> samples_s;    // raw, seconds per call, in the order taken
  double default_s = 0;             // in place: what the model's own kernel took, in turns with it
  double calibration_s = 0;         // the calibration kernel beside them; 0: not taken
  double memory_s = 0;              // the walk over memory beside them (MemoryProbe); 0: not taken
  double build_ms = 0, run_ms = 0;  // what the trial cost: of a processor, and by the clock
  std::int64_t machine = 0;         // which of several took them; 0: this one
  bool disturbed = false;           // no clean samples could be had: the machine was busy
  std::shared_ptr<Built> built;     // of measurers that build and do not run (build_pool.h)

  // Median of the samples; infinity when there are none.
  double seconds() const;
};

// A time as it would be if the calibration kernel beside it had taken `reference_s`; unchanged
// where either is 0: not known.
double without_drift(double seconds, double calibration_s, double reference_s);

}  // namespace tessera::measure
